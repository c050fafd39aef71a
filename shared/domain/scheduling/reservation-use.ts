import { getEnd } from "../appointment/appointment.ts";
import type { AppointmentEvent, HoldEvent } from "../events/appointment.ts";
import type { Instant } from "../time/rfc3339.ts";

/** A place of a resource that an event takes. */
export interface Place {
  resourceId: string;
  startsAt: Instant;
  endsAt: Instant;
}

export type HolderEvent = AppointmentEvent | HoldEvent;

/** Returns the place that an event of an appointment or a hold takes; undefined if it takes none. */
export function findPlace({ type, data }: HolderEvent): Place | undefined {
  switch (type) {
    case "AppointmentRequested":
      return data.place && { resourceId: data.place.resourceId, startsAt: data.scheduledAt, endsAt: getEnd(data) };
    case "ResourceAllocated":
      return { resourceId: data.resourceId, startsAt: data.allocationStart, endsAt: data.allocationEnd };
    case "HoldPlaced":
      return data.resourceId === null
        ? undefined
        : { resourceId: data.resourceId, startsAt: data.startsAt, endsAt: data.endsAt };
    default:
      return undefined;
  }
}

/** Returns the event with the reservation of the place that it takes. */
export function withReservation<Event extends HolderEvent>(event: Event, reservationId: string): Event {
  if (event.type !== "AppointmentRequested") return { ...event, data: { ...event.data, reservationId } };
  return { ...event, data: { ...event.data, place: { ...event.data.place, reservationId } } };
}

function findReservationId({ type, data }: HolderEvent): string | undefined {
  if (type === "AppointmentRequested") return data.place?.reservationId;
  return type === "ResourceAllocated" || type === "HoldPlaced" ? data.reservationId : undefined;
}

/** Record of a reservation in the stream of its appointment or hold. */
export interface ReservationUse {
  /** The place that an event took with the reservation; undefined if the reservation was abandoned. */
  place: Place | undefined;
  /** Revision of the event that ended the reservation; undefined if the reservation is in use. */
  endedAt: bigint | undefined;
}

/** Finds all reservations that the events of an appointment or a hold use or end, by id. */
export function foldReservations(
  events: readonly (HolderEvent & { revision: bigint })[],
): ReadonlyMap<string, ReservationUse> {
  const uses = new Map<string, ReservationUse>();
  /** Reservations in use, by id of the assignment, or of the hold. */
  const currentIds = new Map<string, string>();
  for (const event of events) {
    const { revision, type, data } = event;
    const takerId = findTakerId(event);
    const reservationId = findReservationId(event);
    const formerId = takerId !== undefined && currentIds.get(takerId);
    const former = formerId ? uses.get(formerId) : undefined;
    if (former) former.endedAt ??= revision;
    if (takerId !== undefined) currentIds.delete(takerId);
    if (type === "ReservationAbandoned" || type === "HoldReservationAbandoned") {
      if (!uses.has(data.reservationId)) uses.set(data.reservationId, { place: undefined, endedAt: revision });
    } else if (takerId !== undefined && reservationId !== undefined && !uses.has(reservationId)) {
      uses.set(reservationId, { place: findPlace(event), endedAt: undefined });
      currentIds.set(takerId, reservationId);
    }
  }
  return uses;
}

/** Returns the id of the assignment or the hold whose place an event takes, moves or releases. */
function findTakerId({ type, data }: HolderEvent): string | undefined {
  switch (type) {
    case "AppointmentRequested":
      return data.place?.assignmentId;
    case "ResourceAllocated":
    case "ResourceReleased":
      return data.assignmentId;
    case "HoldPlaced":
    case "HoldReleased":
      return data.holdId;
    default:
      return undefined;
  }
}
