import { getEnd } from "../appointment/appointment.ts";
import type { AppointmentEvent, HoldEvent } from "../events/appointment.ts";
import type { Instant } from "../time/rfc3339.ts";

/** One place of a resource, for a time span. */
export interface Place {
  resourceId: string;
  startsAt: Instant;
  endsAt: Instant;
}

export type HolderEvent = AppointmentEvent | HoldEvent;

/** Effect of an event on the places of resources. Empty if the event has no effect on them. */
interface Taking {
  /** Id of the assignment or hold that takes, moves or releases its place. */
  takerId?: string | undefined;
  /** Place that the event takes; undefined if it takes none. */
  place?: Place | undefined;
  reservationId?: string | undefined;
}

/** Returns the place that an event takes, and the assignment or hold that the event changes. */
export function findTaking({ type, data }: HolderEvent): Taking {
  switch (type) {
    case "AppointmentRequested": {
      if (!data.place) return {};
      const { assignmentId: takerId, resourceId, reservationId } = data.place;
      return { takerId, reservationId, place: { resourceId, startsAt: data.scheduledAt, endsAt: getEnd(data) } };
    }
    case "ResourceAllocated": {
      const { assignmentId: takerId, resourceId, reservationId } = data;
      return {
        takerId,
        reservationId,
        place: { resourceId, startsAt: data.allocationStart, endsAt: data.allocationEnd },
      };
    }
    case "HoldPlaced": {
      const { holdId: takerId, resourceId, reservationId, startsAt, endsAt } = data;
      return { takerId, reservationId, place: resourceId === null ? undefined : { resourceId, startsAt, endsAt } };
    }
    case "ResourceReleased":
      return { takerId: data.assignmentId };
    case "HoldReleased":
      return { takerId: data.holdId };
    default:
      return {};
  }
}

/** Returns a copy of the event with the id of the reservation for its place. */
export function withReservation<Event extends HolderEvent>(event: Event, reservationId: string): Event {
  if (event.type !== "AppointmentRequested") return { ...event, data: { ...event.data, reservationId } };
  return { ...event, data: { ...event.data, place: { ...event.data.place, reservationId } } };
}

/** State of a reservation, according to the stream of its appointment or hold. */
export interface ReservationUse {
  /** The place that an event took with the reservation; undefined if the reservation was abandoned. */
  place: Place | undefined;
  /** Revision of the event that ended the reservation; undefined if the reservation is in use. */
  endedAt: bigint | undefined;
}

/** Returns all reservations that the events of an appointment or hold use or end, by reservation id. */
export function foldReservations(
  events: readonly (HolderEvent & { revision: bigint })[],
): ReadonlyMap<string, ReservationUse> {
  const uses = new Map<string, ReservationUse>();
  /** Reservations in use, by id of the assignment, or of the hold. */
  const currentIds = new Map<string, string>();
  for (const event of events) {
    const { revision, type, data } = event;
    const { takerId, place, reservationId } = findTaking(event);
    const formerId = takerId !== undefined && currentIds.get(takerId);
    const former = formerId ? uses.get(formerId) : undefined;
    if (former) former.endedAt ??= revision;
    if (takerId !== undefined) currentIds.delete(takerId);
    if (type === "ReservationAbandoned" || type === "HoldReservationAbandoned") {
      if (!uses.has(data.reservationId)) uses.set(data.reservationId, { place: undefined, endedAt: revision });
    } else if (takerId !== undefined && reservationId !== undefined && !uses.has(reservationId)) {
      uses.set(reservationId, { place, endedAt: undefined });
      currentIds.set(takerId, reservationId);
    }
  }
  return uses;
}
