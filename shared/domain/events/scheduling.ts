import { z } from "zod";
import { completeEvents, defineCategory, type EventOf } from "./category.ts";
import { calendarDate, instant, uuid } from "./fields.ts";

/** Maximum number of reservations on a day, so that an event stays far below the log's limit. */
export const MAX_DAY_RESERVATIONS = 1_000;

/** Schema of a reservation: a place of a resource, reserved before an event of the appointment or the hold uses it. */
const reservation = z.object({
  /** Id of the reservation: new for each attempt, and the same on all days that the time span touches. */
  reservationId: uuid,
  /** Category and id of the stream that uses the reservation, or ends it. */
  holder: z.enum(["appointment", "hold"]),
  holderId: uuid,
  startsAt: instant,
  endsAt: instant,
  reservedAt: instant,
  /** True if the staff knowingly exceeded the capacity. */
  isOverbooked: z.boolean(),
});
export type Reservation = z.infer<typeof reservation>;

const resourceDay = {
  resourceId: uuid,
  clinicId: uuid,
  /**
   * Sandbox generation; 0 outside of sandboxes. Each generation has its own streams, which begin with the fixture's
   * allocations.
   */
  sandboxGeneration: z.int().min(0),
  /** Day in UTC. */
  day: calendarDate,
};

const reservations = z.array(reservation).max(MAX_DAY_RESERVATIONS);

/** The reservation that an event makes or releases. */
const changedReservation = { reservationId: uuid, holderId: uuid };

/** Returns the id of a stream: `<resource>.<day>`, or `<resource>.<day>.<generation>` in a sandbox. */
export function toResourceDayId({ resourceId, sandboxGeneration, day }: ResourceDay): string {
  return [resourceId, day, ...(sandboxGeneration > 0 ? [sandboxGeneration] : [])].join(".");
}

/**
 * Events of a resource on one day. Only this stream decides who gets a place of the resource, by appends at the
 * expected revision. Each event contains all open reservations. A reservation can remain open here after the stream of
 * its appointment or hold has ended it. The next command that needs the place releases such a reservation.
 */
export const resourceDayStreams = defineCategory("resourceDay", ({ data }) => toResourceDayId(data), completeEvents, {
  PlaceReserved: z.object({ ...resourceDay, ...changedReservation, reservations: reservations.min(1) }),
  PlaceReleased: z.object({ ...resourceDay, ...changedReservation, reservations }),
});
export type ResourceDayEvent = EventOf<typeof resourceDayStreams>;

/** Identifies the stream of a resource's day. */
export type ResourceDay = z.infer<z.ZodObject<typeof resourceDay>>;
