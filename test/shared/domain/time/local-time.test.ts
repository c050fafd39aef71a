import { expect } from "chai";
import {
  findDay,
  findLocalTime,
  fromLocalTime,
  getDay,
  MINUTE_MS,
  toLocalDate,
} from "../../../../shared/domain/time/local-time.ts";
import { toInstant } from "../../../../shared/domain/time/rfc3339.ts";
import { timeZones } from "../../../../shared/domain/time/time-zone.ts";

const HOUR_MS = 60 * MINUTE_MS;
const WEEK_MS = 7 * 24 * HOUR_MS;

/**
 * Years in which clocks skip or repeat unusual times: midnight (Amman, Havana, Beirut), a time near midnight
 * (Pyongyang), half an hour (Lord Howe, Caracas), or a whole day (Apia).
 */
const YEARS = [2011, 2015, 2016, 2018, 2021, 2026];

describe("local time", () => {
  const days: [timeZone: string, date: string, from: string, to: string][] = [
    ["UTC", "2026-05-06", "2026-05-06T00:00:00.000Z", "2026-05-07T00:00:00.000Z"],
    ["Europe/Zurich", "2026-03-29", "2026-03-28T23:00:00.000Z", "2026-03-29T22:00:00.000Z"],
    ["Asia/Kolkata", "2026-05-06", "2026-05-05T18:30:00.000Z", "2026-05-06T18:30:00.000Z"],
    // The clocks skip the hour after midnight.
    ["Asia/Beirut", "2026-03-29", "2026-03-28T22:00:00.000Z", "2026-03-29T21:00:00.000Z"],
    // The clocks skip the hour around midnight, half of it on this day.
    ["America/Toronto", "1919-03-31", "1919-03-31T04:30:00.000Z", "1919-04-01T04:00:00.000Z"],
    // The clocks repeat the hour after midnight.
    ["Atlantic/Azores", "2026-10-25", "2026-10-25T00:00:00.000Z", "2026-10-26T01:00:00.000Z"],
    // The clocks repeat the hour before midnight.
    ["America/Santiago", "2026-04-04", "2026-04-04T03:00:00.000Z", "2026-04-05T04:00:00.000Z"],
    // The clocks return from 00:01 to the day before, but the next day has started.
    ["America/St_Johns", "2010-11-06", "2010-11-06T02:30:00.000Z", "2010-11-07T02:30:00.000Z"],
    // The clocks skip the whole day.
    ["Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00.000Z", "2011-12-30T10:00:00.000Z"],
    // The offset has seconds.
    ["Europe/Zurich", "0999-06-01", "0999-05-31T23:25:52.000Z", "0999-06-01T23:25:52.000Z"],
  ];
  for (const [timeZone, date, from, to] of days)
    it(`the day ${date} in ${timeZone} starts at ${from} and ends at ${to}`, () => {
      expect(getDay(timeZone, date)).to.deep.equal({ from, to });
    });

  it("the first day has no start, and the last day has no end, if no instant is outside", () => {
    expect(getDay("Europe/Zurich", "0001-01-01").from).to.equal(undefined);
    expect(getDay("America/New_York", "0001-01-01").from).to.equal("0001-01-01T04:56:02.000Z");
    expect(getDay("Europe/Zurich", "9999-12-31").to).to.equal("9999-12-31T23:00:00.000Z");
    expect(getDay("UTC", "9999-12-31").to).to.equal(undefined);
  });

  it("a time that the clocks skip is converted to the end of the gap", () => {
    expect(findLocalTime("Europe/Zurich", "2026-03-29", "02:30")).to.deep.equal([]);
    expect(toInstant(fromLocalTime("Europe/Zurich", "2026-03-29", "02:30"))).to.equal("2026-03-29T01:00:00.000Z");
  });

  it("days and times agree with the clocks around every change of every time zone", () => {
    const changes = new Map<string, { timeZone: string; changeMs: number }>();
    for (const timeZone of timeZones) {
      for (const changeMs of YEARS.flatMap((year) => findChanges(timeZone, year))) {
        // Zones with the same clocks around a change need no second check.
        const clocks = [-25, -1 / 3600, 0, 25].map((hours) => readClock(timeZone, changeMs + hours * HOUR_MS));
        changes.set(`${changeMs} ${clocks}`, { timeZone, changeMs });
      }
    }
    expect(changes.size).to.be.greaterThan(200);
    for (const { timeZone, changeMs } of changes.values()) checkClocks(timeZone, changeMs);
  });
});

/** Returns the local date and time, formatted by the runtime, such as `2026-05-06 10:00:00`. */
function readClock(timeZone: string, epochMs: number): string {
  const formatter = clockFormatters.get(timeZone) ?? new Intl.DateTimeFormat("sv", { timeZone, ...CLOCK_STYLE });
  clockFormatters.set(timeZone, formatter);
  return formatter.format(epochMs);
}

const CLOCK_STYLE = { dateStyle: "short", timeStyle: "medium" } as const;
const clockFormatters = new Map<string, Intl.DateTimeFormat>();

/** Returns the UTC offset in milliseconds. */
const readOffset = (timeZone: string, epochMs: number) =>
  Date.parse(`${readClock(timeZone, epochMs).replace(" ", "T")}Z`) - epochMs;

/** Finds the instants of a year at which the UTC offset changes. */
function findChanges(timeZone: string, year: number): number[] {
  const changes: number[] = [];
  let before = Date.UTC(year, 0, 1);
  let offsetMs = readOffset(timeZone, before);
  while (before < Date.UTC(year + 1, 0, 1)) {
    let after = before + WEEK_MS;
    const nextOffsetMs = readOffset(timeZone, after);
    while (nextOffsetMs !== offsetMs && after - before > 1_000) {
      const middle = Math.floor((before + after) / 2_000) * 1_000;
      if (readOffset(timeZone, middle) === offsetMs) before = middle;
      else after = middle;
    }
    if (nextOffsetMs !== offsetMs) changes.push(after);
    [before, offsetMs] = [after, nextOffsetMs];
  }
  return changes;
}

/**
 * Checks the functions for local times every half hour, from one day before to one day after a change of the offset.
 */
function checkClocks(timeZone: string, changeMs: number): void {
  const instants = Array.from({ length: 96 }, (_, index) => changeMs + (index - 48) * 30 * MINUTE_MS);
  const instantsByClock = new Map<string, number[]>();
  for (const epochMs of instants) {
    const clock = readClock(timeZone, epochMs);
    instantsByClock.set(clock, [...(instantsByClock.get(clock) ?? []), epochMs]);
  }
  for (const [clock, expectedInstants] of instantsByClock) {
    const [date = "", time = ""] = clock.split(" ");
    const label = `${clock} in ${timeZone}`;
    if (time.endsWith(":00"))
      expect(findLocalTime(timeZone, date, time.slice(0, 5)), label).to.deep.equal(expectedInstants);
    const { from = "", to = "" } = getDay(timeZone, date);
    expect(readClock(timeZone, Date.parse(from) - 1).slice(0, 10) < date, `${label} is after ${from}`).to.equal(true);
    for (const epochMs of expectedInstants) {
      expect(toLocalDate(timeZone, epochMs), label).to.equal(date);
      expect(toInstant(epochMs) >= from && toInstant(epochMs) < to, `${label} is in the day ${from} to ${to}`).to.equal(
        true,
      );
    }
  }
  for (const epochMs of instants) {
    const { dateMs, fromMs, toMs } = findDay(timeZone, epochMs);
    const label = `${toInstant(epochMs)} in ${timeZone}`;
    expect(fromMs <= epochMs && epochMs < toMs, label).to.equal(true);
    const [from, to] = [toInstant(fromMs), toInstant(toMs)];
    expect(getDay(timeZone, toInstant(dateMs).slice(0, 10)), label).to.deep.equal({ from, to });
  }
}
