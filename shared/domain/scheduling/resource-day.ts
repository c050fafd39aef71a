import type { Reservation } from "../events/scheduling.ts";
import { DAY_MS } from "../time/local-time.ts";
import { type Instant, toInstant } from "../time/rfc3339.ts";
import { findFullSpans, type Occupation, overlaps } from "./occupancy.ts";
import type { Place } from "./reservation-use.ts";

export interface Places {
  capacity: number;
  /** Time spans in which the fixture of a sandbox occupies a place. */
  fixtureOccupations: readonly Occupation[];
}

type HolderSpan = Pick<Reservation, "holderId" | "startsAt" | "endsAt">;

/** Lists the days in UTC (YYYY-MM-DD) that the time span of a place touches, in ascending order. */
export function listDays({ startsAt, endsAt }: Place): string[] {
  const days: string[] = [];
  const firstDayMs = Date.parse(startsAt.slice(0, 10));
  for (let dayMs = firstDayMs; dayMs < Date.parse(endsAt); dayMs += DAY_MS) days.push(toInstant(dayMs).slice(0, 10));
  return days;
}

/**
 * Finds the reservations that leave no free place for a wanted reservation. Ignores reservations of the same holder, so
 * that an allocation can move to an overlapping time.
 *
 * @param reservations existing reservations of the day
 * @returns undefined if a place is free; otherwise the blocking reservations. The list is empty if the fixture of a
 *   sandbox takes all places, or if the resource has no place
 */
export function findBlocking(
  { capacity, fixtureOccupations }: Places,
  reservations: readonly Reservation[],
  wanted: HolderSpan,
): Reservation[] | undefined {
  const others = reservations.filter((reservation) => reservation.holderId !== wanted.holderId);
  const span = toOccupation(wanted);
  const fullSpans = findFullSpans(capacity, [...fixtureOccupations, ...others.map(toOccupation)]);
  const blockedSpans = fullSpans.filter((fullSpan) => overlaps(fullSpan, span));
  if (blockedSpans.length === 0) return undefined;
  return others.filter((other) => {
    const otherSpan = toOccupation(other);
    return overlaps(otherSpan, span) && blockedSpans.some((blockedSpan) => overlaps(blockedSpan, otherSpan));
  });
}

/** Time span in which appointments and holds occupy more places of a resource than it has. */
export interface Overlap {
  /** Inclusive. */
  from: Instant;
  /** Exclusive. */
  to: Instant;
  capacity: number;
  /** Reservations in the span that were not recorded as overbooked. */
  reservations: Reservation[];
}

/**
 * Finds the overlaps among reservations that were not recorded as overbooked. Overlapping reservations of one holder
 * count once. A correct log has no overlaps, because each reservation was checked against all others.
 */
export function findOverlaps(places: Places, reservations: readonly Reservation[]): Overlap[] {
  const { capacity, fixtureOccupations } = places;
  const counted = reservations.filter(({ isOverbooked }) => !isOverbooked);
  // With one more place, the resource would be full exactly where its holders exceed its capacity.
  const spans = findFullSpans(capacity + 1, [...fixtureOccupations, ...counted.map(toOccupation)]);
  return spans.flatMap((span) => {
    const overlapping = counted.filter((reservation) => overlaps(toOccupation(reservation), span));
    const [from, to] = [toInstant(span.fromMs), toInstant(span.toMs)];
    return overlapping.length > 0 ? [{ from, to, capacity, reservations: overlapping }] : [];
  });
}

function toOccupation({ holderId: ownerId, startsAt, endsAt }: HolderSpan): Occupation {
  return { ownerId, fromMs: Date.parse(startsAt), toMs: Date.parse(endsAt) };
}
