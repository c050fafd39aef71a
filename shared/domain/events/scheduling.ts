import { z } from "zod";
import { completeEvents, defineCategory, type EventOf } from "./category.ts";
import { calendarDate, instant, uuid } from "./fields.ts";

/**
 * Maximum number of reservations on a day. Each event contains them all, and must stay far below the log's size limit.
 */
export const MAX_DAY_RESERVATIONS = 1_000;

/** Schema of a reservation of a resource's place. It is made before the appointment or hold takes the place. */
const reservation = z.object({
  /** Id of the reservation: new for each attempt, and the same on all days that the time span touches. */
  reservationId: uuid,
  /** Category of the stream that uses or ends the reservation. `holderId` is the id in this stream's name. */
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
   * Sandbox generation; 0 outside of sandboxes. Each generation has its own streams. They do not contain the fixture's
   * allocations, which also take places.
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
 * Reservations of a resource's places on one day (UTC). Each event contains all open reservations. Two writers cannot
 * reserve the same place, because they append at the expected revision. A reservation may remain open here after the
 * stream of its appointment or hold has ended it. The next command that needs the place then releases it.
 */
export const resourceDayStreams = defineCategory("resourceDay", ({ data }) => toResourceDayId(data), completeEvents, {
  PlaceReserved: z.object({ ...resourceDay, ...changedReservation, reservations: reservations.min(1) }),
  PlaceReleased: z.object({ ...resourceDay, ...changedReservation, reservations }),
});
export type ResourceDayEvent = EventOf<typeof resourceDayStreams>;

/** Identifies the stream of a resource's day. */
export type ResourceDay = z.infer<z.ZodObject<typeof resourceDay>>;
