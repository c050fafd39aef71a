import { DomainError } from "../../shared/domain/domain-error.ts";
import { toStreamName } from "../../shared/domain/events/category.ts";
import {
  MAX_DAY_RESERVATIONS,
  type Reservation,
  type ResourceDay,
  type ResourceDayEvent,
  resourceDayStreams,
  toResourceDayId,
} from "../../shared/domain/events/scheduling.ts";
import type { Place } from "../../shared/domain/scheduling/reservation-use.ts";
import { findBlocking, type Places } from "../../shared/domain/scheduling/resource-day.ts";
import { EMPTY_STREAM, type EventLog, type NewEvent } from "../../shared/eventstore/log.ts";
import { changeStream } from "../handling/change-stream.ts";
import { type CommandContext, toNewEvent } from "../handling/handle.ts";
import { isReservationEnded } from "./holder.ts";

export interface ReservablePlace extends Place {
  places: Places;
  /** All days that the place touches, in ascending order. */
  resourceDays: ResourceDay[];
}

/** A reservation that was made on all or some of the days that its place touches. */
export interface Reserved {
  reservationId: string;
  /** Days that may contain the reservation. */
  days: ResourceDay[];
}

export interface ReservedPlace extends ReservablePlace, Reserved {}

/** Maximum number and size in bytes of the events that one append adds to a day. */
const [MAX_BATCH_EVENTS, MAX_BATCH_BYTES] = [32, 500_000];

/** Size of a reservation in an event. Bytes. */
const RESERVATION_BYTES = 300;

/** A reservation that waits to be appended to the stream of its day. */
interface WaitingReservation {
  log: EventLog;
  day: ResourceDay;
  place: ReservedPlace;
  reservation: Omit<Reservation, "isOverbooked">;
  context: CommandContext;
  overbooks: boolean;
  outcome?: "reserved" | "refused";
}

/** Reservations of this process that wait, by stream of the day. */
const waitingReservations = new Map<string, Set<WaitingReservation>>();

/**
 * Reserves a place on each day that the place touches, in ascending order. Adds each reserved day to `place.days`, so
 * that a failed reservation can be released. Waiting reservations of the same day share one read and one append.
 *
 * @param overbooks if true, the reservation may exceed the capacity. It is then recorded as overbooked
 * @throws {DomainError} `slot_taken`
 * @throws {WrongExpectedRevisionError} if other writers kept appending to a day first for 10 seconds
 */
export async function reservePlace(
  log: EventLog,
  place: ReservedPlace,
  reservation: Omit<Reservation, "isOverbooked">,
  context: CommandContext,
  overbooks: boolean,
): Promise<void> {
  for (const day of place.resourceDays) {
    const stream = toStreamName(resourceDayStreams, toResourceDayId(day));
    const item: WaitingReservation = { log, day, place, reservation, context, overbooks };
    const waiting = waitingReservations.get(stream) ?? new Set();
    waitingReservations.set(stream, waiting.add(item));
    try {
      await changeStream(stream, async () => {
        // A dry run has a log of its own.
        const items = [...waiting].filter((other) => other.log === log).slice(0, MAX_BATCH_EVENTS);
        if (!item.outcome) await reserveBatch(log, stream, [item, ...items]);
      });
    } finally {
      waiting.delete(item);
      if (waiting.size === 0 && waitingReservations.get(stream) === waiting) waitingReservations.delete(stream);
    }
    if (item.outcome === "refused") throw createTakenError();
  }
}

/** Decides the reservations of one day in order. Appends the reservations that get a place. */
async function reserveBatch(log: EventLog, stream: string, items: readonly WaitingReservation[]): Promise<void> {
  const lastEvent = await log.readLast<ResourceDayEvent>(stream);
  let reservations = lastEvent?.data.reservations ?? [];
  const newEvents: NewEvent[] = [];
  const outcomes = new Map<WaitingReservation, "reserved" | "refused">();
  for (const item of new Set(items)) {
    const { day, place, reservation, context, overbooks } = item;
    const { reservationId, holderId } = reservation;
    // An append whose outcome was unknown has made the reservation.
    if (reservations.some((other) => other.reservationId === reservationId)) {
      outcomes.set(item, "reserved");
      continue;
    }
    if (newEvents.length * (reservations.length + 1) * RESERVATION_BYTES > MAX_BATCH_BYTES) break;
    let blocking = findBlocking(place.places, reservations, reservation);
    const isFull = reservations.length >= MAX_DAY_RESERVATIONS;
    if (blocking || isFull) {
      const endedIds = await findEnded(log, isFull ? reservations : (blocking ?? []), context);
      reservations = reservations.filter((other) => !endedIds.has(other.reservationId));
      blocking = findBlocking(place.places, reservations, reservation);
    }
    if (reservations.length >= MAX_DAY_RESERVATIONS || (blocking && !overbooks)) {
      outcomes.set(item, "refused");
      continue;
    }
    reservations = [...reservations, { ...reservation, isOverbooked: blocking !== undefined }];
    const data = { ...day, reservationId, holderId, reservations };
    newEvents.push(toNewEvent({ type: "PlaceReserved", data }, context));
    if (place.days.at(-1) !== day) place.days.push(day);
    outcomes.set(item, "reserved");
  }
  if (newEvents.length > 0) {
    await log.append(stream, lastEvent?.revision ?? EMPTY_STREAM, newEvents).catch((error) => {
      // A deleted day cannot be booked, as if it were full.
      throw error instanceof DomainError && error.code === "object_deleted" ? createTakenError() : error;
    });
  }
  for (const [item, outcome] of outcomes) item.outcome = outcome;
}

/** Releases a reservation in the stream of each day in `days`. A day without the reservation does not change. */
export async function releasePlace(
  log: EventLog,
  { reservationId, days }: Reserved,
  context: CommandContext,
): Promise<void> {
  for (const day of days) {
    const stream = toStreamName(resourceDayStreams, toResourceDayId(day));
    await changeStream(stream, async () => {
      const lastEvent = await log.readLast<ResourceDayEvent>(stream);
      const released = lastEvent?.data.reservations.find((other) => other.reservationId === reservationId);
      if (!lastEvent || !released) return;
      const reservations = lastEvent.data.reservations.filter((other) => other !== released);
      const data = { ...day, reservationId, holderId: released.holderId, reservations };
      const event = toNewEvent({ type: "PlaceReleased", data }, context);
      await log.append(stream, lastEvent.revision, [event]);
    });
  }
}

/** Number of holders that are read concurrently. */
const READ_COUNT = 16;

async function findEnded(
  log: EventLog,
  reservations: readonly Reservation[],
  context: CommandContext,
): Promise<ReadonlySet<string>> {
  const endedIds = new Set<string>();
  for (let index = 0; index < reservations.length; index += READ_COUNT) {
    const judged = reservations.slice(index, index + READ_COUNT).map(async (reservation) => {
      if (await isReservationEnded(log, reservation, context)) endedIds.add(reservation.reservationId);
    });
    await Promise.all(judged);
  }
  return endedIds;
}

function createTakenError(): DomainError {
  return new DomainError("slot_taken", "the resource has no free place at that time");
}
