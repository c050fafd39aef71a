import type { AvailabilityRule } from "../clinic/resource.ts";
import { DAY_MS, getWeekday, listOffsets, MINUTE_MS, type OffsetSpan, toLocalDate } from "../time/local-time.ts";
import { findFullSpans, joinSpans, type Occupation, overlaps, subtractSpans, type TimeSpan } from "./occupancy.ts";

/** Type of the rules that open a resource for bookings. Rules of other types are only information for the clinic. */
export const OPENING_HOURS = "opening_hours";

/** Minutes between two starting times if the clinic has set no grid. */
export const DEFAULT_GRID_MINUTES = 15;

export type OpeningRule = Omit<AvailabilityRule, "ruleId">;

/** Data of a resource that determines its free times. */
export interface SearchedResource {
  id: string;
  capacity: number;
  timezone: string;
  rules: readonly OpeningRule[];
  /** Time spans in which appointments and holds occupy a place. */
  occupations: readonly Occupation[];
  /** Time spans in which a hold of the whole branch occupies all places. */
  closures: readonly TimeSpan[];
}

/** Range in which slots may start, with the duration of a slot and the clinic's grid. */
export interface SlotSearch extends TimeSpan {
  durationMinutes: number;
  gridMinutes: number;
  /** Time of the request. Slots start later. Milliseconds since 1970. */
  nowMs: number;
}

interface Slot {
  startMs: number;
  /** Resources that are free for the whole duration, in the given order. */
  resourceIds: string[];
}

/**
 * Lists the first free starting times of resources in ascending order.
 *
 * @param limit maximum number of starting times
 */
export function listSlots(resources: readonly SearchedResource[], search: SlotSearch, limit: number): Slot[] {
  const resourceIdsByStart = new Map<number, string[]>();
  const offsetsByZone = new Map<string, OffsetSpan[]>();
  for (const resource of resources) {
    const { timezone } = resource;
    const offsets = offsetsByZone.get(timezone) ?? listSearchedOffsets(timezone, search);
    offsetsByZone.set(timezone, offsets);
    for (const startMs of listFreeStarts(resource, search, offsets, limit)) {
      const resourceIds = resourceIdsByStart.get(startMs);
      if (resourceIds) resourceIds.push(resource.id);
      else resourceIdsByStart.set(startMs, [resource.id]);
    }
  }
  const slots = [...resourceIdsByStart].map(([startMs, resourceIds]) => ({ startMs, resourceIds }));
  return slots.sort((a, b) => a.startMs - b.startMs).slice(0, limit);
}

/** Returns true if the rules of a resource offer a starting time, whether or not it is free. */
export function isOffered(
  { timezone, rules }: Pick<SearchedResource, "timezone" | "rules">,
  startMs: number,
  search: Omit<SlotSearch, keyof TimeSpan>,
): boolean {
  const resource = { id: "", timezone, rules, capacity: 1, occupations: [], closures: [] };
  return listSlots([resource], { ...search, fromMs: startMs, toMs: startMs + 1 }, 1).length > 0;
}

/**
 * Lists the free starting times of one resource. For the whole slot, the resource is open and has a free place. The
 * starting times are on a grid that begins at the start of each rule, in local time. A local time that the clocks skip
 * yields no starting time. A local time that the clocks repeat yields two.
 */
function listFreeStarts(
  { timezone, rules, capacity, occupations, closures }: SearchedResource,
  search: SlotSearch,
  offsets: readonly OffsetSpan[],
  limit: number,
): number[] {
  const { fromMs, toMs, durationMinutes, gridMinutes, nowMs } = search;
  const [durationMs, gridMs] = [durationMinutes * MINUTE_MS, gridMinutes * MINUTE_MS];
  const periods = listLocalPeriods(rules, toLocalDate(timezone, fromMs), toLocalDate(timezone, toMs + durationMs));
  const openPeriods = periods.flatMap((period) => offsets.flatMap((offset) => toSpans(period, offset)));
  const fullSpans = joinSpans([...findFullSpans(capacity, occupations), ...closures]);
  const freeSpans = joinSpans(openPeriods).flatMap((openSpan) => subtractSpans(openSpan, fullSpans));
  const starts = new Set<number>();
  const firstMs = Math.max(fromMs, nowMs + 1);
  for (const { gridStartMs, ...openPeriod } of openPeriods.sort((a, b) => a.fromMs - b.fromMs)) {
    // All starts of this period and of later ones are later than those found.
    if (starts.size >= limit && openPeriod.fromMs > Math.max(...starts)) break;
    for (const freeSpan of freeSpans) {
      if (!overlaps(openPeriod, freeSpan)) continue;
      const earliestMs = Math.max(firstMs, openPeriod.fromMs, freeSpan.fromMs);
      const latestMs = Math.min(toMs - 1, openPeriod.toMs - 1, freeSpan.toMs - durationMs);
      const stepCount = Math.ceil((earliestMs - gridStartMs) / gridMs);
      for (let startMs = gridStartMs + stepCount * gridMs; startMs <= latestMs; startMs += gridMs) starts.add(startMs);
    }
  }
  return [...starts];
}

/** Lists the UTC offsets for all local days that a slot can touch. */
function listSearchedOffsets(timezone: string, { fromMs, toMs, durationMinutes }: SlotSearch): OffsetSpan[] {
  return listOffsets(timezone, fromMs - DAY_MS, toMs + durationMinutes * MINUTE_MS + DAY_MS);
}

/**
 * Lists the opening periods in local time. Includes the adjacent days, because their periods can adjoin at midnight.
 *
 * @returns local times, encoded as if they were in UTC
 */
function listLocalPeriods(rules: readonly OpeningRule[], firstDate: string, lastDate: string): TimeSpan[] {
  const openingRules = rules.filter(({ ruleType, recurrence }) => ruleType === OPENING_HOURS && recurrence === null);
  const periods: TimeSpan[] = [];
  for (let dateMs = Date.parse(firstDate) - DAY_MS; dateMs <= Date.parse(lastDate) + DAY_MS; dateMs += DAY_MS) {
    const date = new Date(dateMs).toISOString().slice(0, 10);
    const weekday = getWeekday(date);
    for (const { startsAt, endsAt, validFrom, validUntil, ...rule } of openingRules) {
      const isValid = (validFrom ?? date) <= date && date <= (validUntil ?? date);
      if (rule.weekday !== weekday || !isValid) continue;
      periods.push({ fromMs: dateMs + toMilliseconds(startsAt), toMs: dateMs + toMilliseconds(endsAt) });
    }
  }
  return periods;
}

/** @param time HH:MM:SS, up to 24:00:00 */
function toMilliseconds(time: string): number {
  const [hours = 0, minutes = 0, seconds = 0] = time.split(":").map(Number);
  return ((hours * 60 + minutes) * 60 + seconds) * 1_000;
}

interface OpenPeriod extends TimeSpan {
  /** Start of the grid of starting times, in milliseconds since 1970. */
  gridStartMs: number;
}

/** Converts a local period to instants, for the time in which a UTC offset applies. Returns one span or none. */
function toSpans(period: TimeSpan, { fromMs, toMs, offsetMs }: OffsetSpan): OpenPeriod[] {
  const gridStartMs = period.fromMs - offsetMs;
  const span = { fromMs: Math.max(gridStartMs, fromMs), toMs: Math.min(period.toMs - offsetMs, toMs) };
  return span.fromMs < span.toMs ? [{ ...span, gridStartMs }] : [];
}
