import { randomUUID } from "node:crypto";
import { resourceAggregate } from "../../shared/domain/clinic/resource.ts";
import { DomainError } from "../../shared/domain/domain-error.ts";
import type { ResourceDay } from "../../shared/domain/events/scheduling.ts";
import { findFixtureResource, listFixtureOccupations, type Sandbox } from "../../shared/domain/partner/sandbox.ts";
import { requireExisting } from "../../shared/domain/preconditions.ts";
import {
  findTaking,
  foldReservations,
  type HolderEvent,
  type Place,
  withReservation,
} from "../../shared/domain/scheduling/reservation-use.ts";
import { listDays } from "../../shared/domain/scheduling/resource-day.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import {
  type EventLog,
  LogUnavailableError,
  type NewEvent,
  WrongExpectedRevisionError,
} from "../../shared/eventstore/log.ts";
import { type CommandContext, loadAggregate } from "../handling/handle.ts";
import { abandonReservation, findHolder, type Holder, readHolder } from "./holder.ts";
import {
  type ReservablePlace,
  type Reserved,
  type ReservedPlace,
  releasePlace,
  reservePlace,
} from "./resource-days.ts";

interface ReservingLogOptions {
  /** Sandbox of the command's clinic; null if the clinic is not a sandbox. */
  sandbox: Sandbox | null;
  /** If true, reservations may exceed the capacity of a resource. */
  overbooks: boolean;
  /**
   * Context of the events that reserve and release places. Its time is the current time, also in an import of earlier
   * events.
   */
  context: CommandContext;
}

/**
 * Creates the event log of a command about an appointment or a hold, the holder of reservations. Before an append to
 * the holder's stream, it reserves the places that the events need. The appended events then refer to the reservations.
 * The stream of the resource's day decides who gets a place. The holder's stream decides whether a reservation is in
 * use. An append that ends reservations also releases their places.
 *
 * After a conflict or an unknown outcome, an append throws {@link WrongExpectedRevisionError}, so that `handle` decides
 * again with the current state. Each attempt makes new reservations. If a failed append may still arrive, its
 * reservations are first ended in the holder's stream, and only then released.
 *
 * Appends throw {@link DomainError} `slot_taken` if a place is not free, and `resource_not_available` if its resource
 * is retired.
 */
export function createReservingLog(log: EventLog, options: ReservingLogOptions): EventLog {
  const { sandbox, overbooks, context } = options;
  const ids = { clinicId: context.clinicId as string, sandboxGeneration: sandbox?.generation ?? 0 };
  const toResourceDays = (place: Place): ResourceDay[] =>
    listDays(place).map((day) => ({ resourceId: place.resourceId, ...ids, day }));
  const findPlaceOf = async (event: HolderEvent): Promise<ReservablePlace | undefined> => {
    const { place } = findTaking(event);
    if (!place || Date.parse(place.endsAt) <= context.now) return undefined;
    // A cached resource does not suffice, because a command may have retired the resource since.
    const found = sandbox
      ? findFixtureResource(sandbox, place.resourceId)
      : (await loadAggregate(log, resourceAggregate, place.resourceId)).state;
    const resource = requireExisting(found, "resource");
    if (!resource.active) throw new DomainError("resource_not_available", "the resource is retired");
    const fixtureOccupations = sandbox ? listFixtureOccupations(sandbox, place.resourceId) : [];
    const places = { capacity: resource.addition.capacity, fixtureOccupations };
    return { ...place, places, resourceDays: toResourceDays(place) };
  };

  /** Reserves the places that the events need, and then appends the events with the ids of the reservations. */
  async function appendWithPlaces(stream: string, holder: Holder, expectedRevision: bigint, newEvents: NewEvent[]) {
    const places: ReservedPlace[] = [];
    const reservingEvents: NewEvent[] = [];
    for (const newEvent of newEvents) {
      const event = newEvent.event as HolderEvent;
      const place = await findPlaceOf(event);
      const reservationId = randomUUID();
      if (place) places.push({ ...place, reservationId, days: [] });
      reservingEvents.push(place ? { ...newEvent, event: withReservation(event, reservationId) } : newEvent);
    }
    const [firstPlace] = places;
    if (!firstPlace) return log.append(stream, expectedRevision, newEvents);
    await reserve(holder, expectedRevision, places);
    try {
      return await log.append(stream, expectedRevision, reservingEvents);
    } catch (error) {
      const position = await settle(holder, expectedRevision, reservingEvents.length, firstPlace.reservationId);
      if (position !== undefined) return position;
      await release(places);
      if (!(error instanceof LogUnavailableError)) throw error;
      throw new WrongExpectedRevisionError("the append did not arrive, and was abandoned", { cause: error });
    }
  }

  async function reserve(holder: Holder, expectedRevision: bigint, places: readonly ReservedPlace[]): Promise<void> {
    const reservedAt = toInstant(context.now);
    try {
      for (const place of places) {
        const { reservationId, startsAt, endsAt } = place;
        await reservePlace(log, place, { reservationId, ...holder, startsAt, endsAt, reservedAt }, context, overbooks);
      }
    } catch (error) {
      await release(places);
      // A refusal must not be out of date: a repetition of the same command may have taken the place.
      if (error instanceof DomainError && (await readHolder(log, holder)).revision !== expectedRevision)
        throw new WrongExpectedRevisionError("the holder of the reservation has changed", { cause: error });
      throw error;
    }
  }

  /**
   * Finds out whether an append without a response was stored. If not, ends its reservations, so that it cannot be
   * stored later.
   *
   * @returns log position of the stored events; undefined if the append was not stored
   */
  async function settle(
    holder: Holder,
    expectedRevision: bigint,
    eventCount: number,
    reservationId: string,
  ): Promise<bigint | undefined> {
    for (;;) {
      const { uses, events, revision } = await readHolder(log, holder);
      const newRevision = expectedRevision + BigInt(eventCount);
      if (uses.get(reservationId)?.place) return events.find((event) => event.revision === newRevision)?.position;
      if (revision !== expectedRevision) return undefined;
      try {
        await abandonReservation(log, holder, reservationId, revision, context);
        return undefined;
      } catch (error) {
        // Another append has arrived. At most one more read is needed, because the revision has moved.
        if (!(error instanceof WrongExpectedRevisionError)) throw error;
      }
    }
  }

  /**
   * Releases places. If the log fails, the places stay reserved until another command needs them. That command can
   * release them, because their reservations have ended.
   */
  async function release(places: readonly Reserved[]): Promise<void> {
    try {
      for (const place of places) await releasePlace(log, place, context);
    } catch (error) {
      if (!(error instanceof LogUnavailableError) && !(error instanceof WrongExpectedRevisionError)) throw error;
    }
  }

  async function findEndedPlaces(holder: Holder, expectedRevision: bigint, newEvents: readonly NewEvent[]) {
    const { events } = await readHolder(log, holder);
    const nextEvents = newEvents.map(({ event }) => ({ ...(event as HolderEvent), revision: expectedRevision + 1n }));
    const uses = foldReservations([...events, ...nextEvents]);
    const places: Reserved[] = [];
    for (const [reservationId, { place, endedAt }] of uses) {
      const isEnded = place && endedAt !== undefined && endedAt > expectedRevision;
      if (isEnded) places.push({ reservationId, days: toResourceDays(place) });
    }
    return places;
  }

  return {
    ...log,
    async append(stream, expectedRevision, newEvents) {
      const holder = findHolder(stream);
      if (!holder) return log.append(stream, expectedRevision, newEvents);
      const endsPlaces = newEvents.some(({ event }) => mayEndReservation(event as HolderEvent));
      const endedPlaces = endsPlaces ? await findEndedPlaces(holder, expectedRevision, newEvents) : [];
      const position = await appendWithPlaces(stream, holder, expectedRevision, newEvents);
      await release(endedPlaces);
      return position;
    },
  };
}

function mayEndReservation({ type, data }: HolderEvent): boolean {
  return (
    type === "ResourceReleased" || type === "HoldReleased" || (type === "ResourceAllocated" && !!data.isConsequence)
  );
}
