import { expect } from "chai";
import fc from "fast-check";
import {
  isOffered,
  listSlots,
  type OpeningRule,
  type SearchedResource,
  type SlotSearch,
} from "../../../../shared/domain/scheduling/free-times.ts";
import { findFullSpans, type Occupation } from "../../../../shared/domain/scheduling/occupancy.ts";
import { fromLocalTime, getDay, getWeekday, MINUTE_MS } from "../../../../shared/domain/time/local-time.ts";
import { toInstant } from "../../../../shared/domain/time/rfc3339.ts";

const NEW_YORK = "America/New_York";
const AUCKLAND = "Pacific/Auckland";

/** Creates an opening rule for a weekday. @param hours such as `09:00-12:00` */
const open = (date: string, hours: string, overrides: Partial<OpeningRule> = {}): OpeningRule => {
  const [startsAt, endsAt] = hours.split("-").map((time) => `${time}:00`);
  const validity = { validFrom: null, validUntil: null, ruleType: "opening_hours", recurrence: null };
  return { weekday: getWeekday(date), startsAt: startsAt!, endsAt: endsAt!, ...validity, ...overrides };
};

interface Case {
  timezone?: string;
  rules: OpeningRule[];
  capacity?: number;
  occupations?: Occupation[];
  search: Partial<SlotSearch> & { from: string; to: string };
}

function list({ timezone = "UTC", rules, capacity = 1, occupations = [], search }: Case): string[] {
  const { from, to, ...others } = search;
  const window = { fromMs: Date.parse(from), toMs: Date.parse(to) };
  const resource = { ...room, timezone, rules, capacity, occupations };
  return listSlots([resource], { ...grid, ...window, ...others }, 10_000).map(({ startMs }) => toInstant(startMs));
}

/** Returns the starting times of slots on one local day, as UTC times (HH:MM). */
function listDay(date: string, timezone: string, rules: OpeningRule[], others: Partial<Case & SlotSearch> = {}) {
  const { from = "", to = "" } = getDay(timezone, date);
  const { capacity, occupations, ...search } = others;
  const places = { ...(capacity !== undefined && { capacity }), ...(occupations && { occupations }) };
  return list({ timezone, rules, ...places, search: { from, to, ...search } }).map((time) => time.slice(11, 16));
}

const busy = (date: string, from: string, to: string, ownerId = `${from} ${to}`): Occupation => ({
  ownerId,
  fromMs: Date.parse(`${date}T${from}:00Z`),
  toMs: Date.parse(`${date}T${to}:00Z`),
});

const date = "2026-05-06";
const nextDate = "2026-05-07";
const grid = { durationMinutes: 60, gridMinutes: 60, nowMs: 0 };
const searchedDay = { ...grid, fromMs: Date.parse(date), toMs: Date.parse(nextDate) };
const room: SearchedResource = { id: "room", timezone: "UTC", rules: [], capacity: 1, occupations: [], closures: [] };

describe("free times", () => {
  for (const [day, first, last] of [
    ["2026-03-07", "18:00", "22:00"],
    ["2026-03-08", "17:00", "21:00"],
    ["2026-11-01", "18:00", "22:00"],
  ] as const)
    it(`a rule from 13:00 to 18:00 in New York opens at ${first}Z on ${day}, and its last hour begins at ${last}Z`, () => {
      const starts = listDay(day, NEW_YORK, [open(day, "13:00-18:00")]);
      expect([starts[0], starts.at(-1), starts.length]).to.deep.equal([first, last, 5]);
    });

  it("a local time that the clocks skip has no slot", () => {
    const day = "2026-03-08";
    expect(listDay(day, NEW_YORK, [open(day, "01:00-04:00")])).to.deep.equal(["06:00", "07:00"]);
  });

  it("a local time that the clocks repeat has two slots", () => {
    const day = "2026-11-01";
    expect(listDay(day, NEW_YORK, [open(day, "00:00-03:00")])).to.deep.equal(["04:00", "05:00", "06:00", "07:00"]);
  });

  it("an opening past midnight is two rules that join", () => {
    const rules = [open(date, "22:30-24:00"), open(nextDate, "00:00-01:30")];
    const search = { from: `${date}T12:00:00Z`, to: `${nextDate}T12:00:00Z`, gridMinutes: 30 };
    expect(list({ rules, search }).map((time) => time.slice(11, 16))).to.deep.equal([
      ...["22:30", "23:00", "23:30", "00:00", "00:30"],
    ]);
  });

  it("a rule that ends at midnight offers its last hour, and a whole day has 24", () => {
    expect(listDay(date, "UTC", [open(date, "18:00-24:00")]).at(-1)).to.equal("23:00");
    expect(listDay(date, "UTC", [open(date, "00:00-24:00")])).to.have.length(24);
  });

  it("a rule as long as the duration has exactly one start", () => {
    expect(listDay(date, "UTC", [open(date, "09:00-10:00")], { gridMinutes: 15 })).to.deep.equal(["09:00"]);
  });

  it("no slot begins before a break that it would overlap", () => {
    const rules = [open(date, "09:30-12:00"), open(date, "12:30-17:00")];
    const starts = listDay(date, "UTC", rules, { gridMinutes: 30 });
    expect(starts).to.include("11:00").and.include("12:30").and.not.include("11:30").and.not.include("12:00");
  });

  it("slots leave out a busy time", () => {
    const occupations = [busy(date, "10:10", "10:20")];
    const starts = listDay(date, "UTC", [open(date, "09:00-12:00")], { gridMinutes: 15, occupations });
    expect(starts).to.deep.equal(["09:00", "10:30", "10:45", "11:00"]);
  });

  it("one local day in Auckland has only the rules of that day when it is asked in UTC", () => {
    const { from = "", to = "" } = getDay(AUCKLAND, date);
    const rules = ["2026-05-05", date, nextDate].map((day, n) =>
      open(day, `0${n + 8}:00-${n + 9}:00`.replace("-9", "-09")),
    );
    expect(list({ timezone: AUCKLAND, rules, search: { from, to } })).to.deep.equal([
      toInstant(fromLocalTime(AUCKLAND, date, "09:00")),
    ]);
  });

  for (const [zone, day, hours] of [
    [NEW_YORK, "2026-03-08", 23],
    [NEW_YORK, "2026-11-01", 25],
    ["Australia/Lord_Howe", "2026-04-05", 24.5],
    ["Australia/Lord_Howe", "2026-10-04", 23.5],
  ] as const)
    it(`the day ${day} in ${zone} is open for ${hours} hours`, () => {
      const search = { durationMinutes: 60, gridMinutes: 30 };
      expect(listDay(day, zone, [open(day, "00:00-24:00")], search)).to.have.length(hours * 2 - 1);
      const nightlyRules = [open(day, "00:00-24:00"), open(getNextDay(day), "00:00-01:00")];
      expect(listDay(day, zone, nightlyRules, search)).to.have.length(hours * 2);
    });

  it("rules count only on their valid days, with the type opening_hours, and without a recurrence", () => {
    const hours = "09:00-10:00";
    const count = (overrides: Partial<OpeningRule>) => listDay(date, "UTC", [open(date, hours, overrides)]).length;
    expect(count({ validFrom: date, validUntil: date })).to.equal(1);
    expect(count({ validFrom: nextDate })).to.equal(0);
    expect(count({ validUntil: "2026-05-05" })).to.equal(0);
    expect(count({ ruleType: "lunch" })).to.equal(0);
    expect(count({ recurrence: { every: 2 } })).to.equal(0);
  });

  it("no slot begins at or before the time of the request", () => {
    const nowMs = Date.parse(`${date}T10:00:00Z`);
    expect(listDay(date, "UTC", [open(date, "09:00-13:00")], { nowMs })).to.deep.equal(["11:00", "12:00"]);
  });

  it("a window contains the starting times from its start until before its end", () => {
    const search = { from: `${date}T10:00:00Z`, to: `${date}T12:00:00Z` };
    expect(list({ rules: [open(date, "09:00-17:00")], search })).to.have.length(2);
  });

  it("a resource with the capacity n has floor(n) places, and one appointment takes one of them", () => {
    const [a, b] = [busy(date, "09:00", "10:00", "a"), busy(date, "09:30", "10:00", "b")];
    const list9 = (capacity: number, occupations: Occupation[]) =>
      listDay(date, "UTC", [open(date, "09:00-10:00")], { capacity, occupations });
    expect(list9(2, [a])).to.deep.equal(["09:00"]);
    expect(list9(2.9, [a, b])).to.deep.equal([]);
    expect(list9(3, [a, b])).to.deep.equal(["09:00"]);
    expect(list9(2, [a, { ...b, ownerId: "a" }])).to.deep.equal(["09:00"]);
    expect(list9(0.5, [])).to.deep.equal([]);
  });

  it("slots name the free resources, and the limit bounds the starting times", () => {
    const rules = [open(date, "09:00-12:00")];
    const rooms = [
      { ...room, id: "a", rules, occupations: [busy(date, "09:00", "10:00")] },
      { ...room, id: "b", rules },
    ];
    const slots = listSlots(rooms, searchedDay, 2);
    expect(slots.map(({ resourceIds }) => resourceIds)).to.deep.equal([["b"], ["a", "b"]]);
  });

  it("a hold of the whole branch takes all places", () => {
    const closed = { rules: [open(date, "09:00-11:00")], capacity: 5, closures: [busy(date, "09:00", "10:00")] };
    const slots = listSlots([{ ...room, ...closed }], searchedDay, 9);
    expect(slots.map(({ startMs }) => toInstant(startMs))).to.deep.equal([`${date}T10:00:00.000Z`]);
  });

  it("a starting time is offered if it is on the grid, whether or not it is free", () => {
    const resource = { timezone: NEW_YORK, rules: [open(date, "09:00-12:00")] };
    const search = { durationMinutes: 60, gridMinutes: 15, nowMs: 0 };
    const isOfferedAt = (time: string) => isOffered(resource, fromLocalTime(NEW_YORK, date, time), search);
    expect(["09:15", "11:00"].map(isOfferedAt)).to.deep.equal([true, true]);
    expect(["08:45", "09:10", "11:15"].map(isOfferedAt)).to.deep.equal([false, false, false]);
  });

  it("the full times are those at which the owners of all occupations count at least the places", () => {
    const time = fc.integer({ min: 0, max: 12 });
    const occupation = fc
      .tuple(fc.constantFrom("a", "b", "c", "d"), time, time)
      .map(([ownerId, x, y]) => ({ ownerId, fromMs: Math.min(x, y), toMs: Math.max(x, y) + 1 }));
    fc.assert(
      fc.property(fc.array(occupation, { maxLength: 8 }), fc.integer({ min: 1, max: 3 }), (occupations, capacity) => {
        const spans = findFullSpans(capacity, occupations);
        for (let t = -1; t < 15; t += 1) {
          const owners = new Set(
            occupations.filter(({ fromMs, toMs }) => fromMs <= t && t < toMs).map((o) => o.ownerId),
          );
          const isFull = spans.some(({ fromMs, toMs }) => fromMs <= t && t < toMs);
          expect(isFull).to.equal(owners.size >= capacity);
        }
      }),
    );
  });
});

function getNextDay(day: string): string {
  return new Date(Date.parse(day) + 1440 * MINUTE_MS).toISOString().slice(0, 10);
}
