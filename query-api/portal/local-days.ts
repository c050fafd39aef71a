import { LRUCache } from "lru-cache";
import { DAY_MS, findDay, type LocalDay } from "../../shared/domain/time/local-time.ts";
import { toInstantInRange } from "../../shared/domain/time/rfc3339.ts";

/** Maximum number of local days in the cache. They occupy about 2 MB. */
const MAX_CACHED_DAYS = 5_000;

/** Local days by time zone and UTC day. A UTC day overlaps two local days, or three if one of them was skipped. */
const cachedDays = new LRUCache<string, LocalDay[]>({
  maxSize: MAX_CACHED_DAYS,
  sizeCalculation: ({ length }) => length,
});

/**
 * Describes the local days that overlap a time window, for a parameter of an SQL statement. Postgres does not convert
 * the times, because it may lack a time zone of this runtime, or use other offsets for it.
 *
 * @param fromMs start of the window, inclusive, in milliseconds since 1970
 * @param toMs end of the window, exclusive, in milliseconds since 1970
 * @returns a JSON object by time zone. `from` and `to` are the start of the first day and the end of the last day;
 *   `firstDate` and `lastDate` are their dates
 */
export function describeLocalDays(timeZones: readonly string[], fromMs: number, toMs: number): string {
  const entries = timeZones.map((timeZone) => {
    const [first, last] = [findCachedDay(timeZone, fromMs), findCachedDay(timeZone, toMs - 1)];
    const [firstDate, lastDate] = [toPostgresTime(first.dateMs).slice(0, 10), toPostgresTime(last.dateMs).slice(0, 10)];
    return [timeZone, { firstDate, lastDate, from: toPostgresTime(first.fromMs), to: toPostgresTime(last.toMs) }];
  });
  return JSON.stringify(Object.fromEntries(entries));
}

function findCachedDay(timeZone: string, epochMs: number): LocalDay {
  const key = `${timeZone} ${Math.floor(epochMs / DAY_MS)}`;
  const days = cachedDays.get(key) ?? [];
  const cachedDay = days.find(({ fromMs, toMs }) => fromMs <= epochMs && epochMs < toMs);
  if (cachedDay) return cachedDay;
  const day = findDay(timeZone, epochMs);
  cachedDays.set(key, [...days, day]);
  return day;
}

/**
 * Converts a time to Postgres text. Times outside the years 1 to 9999 become infinite, because no stored time is
 * earlier or later.
 */
function toPostgresTime(epochMs: number): string {
  return toInstantInRange(epochMs) ?? (epochMs < 0 ? "-infinity" : "infinity");
}
