import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Reservation } from "../../../../shared/domain/events/scheduling.ts";
import { findOverlaps } from "../../../../shared/domain/scheduling/resource-day.ts";

const toTime = (time: string) => `2027-03-01T${time}:00.000Z` as Reservation["startsAt"];
const [ada, ben, cleo] = [randomUUID(), randomUUID(), randomUUID()];

function reserve(holderId: string, hours: string, isOverbooked = false): Reservation {
  const [startsAt, endsAt] = hours.split("-").map(toTime) as [Reservation["startsAt"], Reservation["endsAt"]];
  const ids = { reservationId: randomUUID(), holder: "appointment" as const, holderId };
  return { ...ids, startsAt, endsAt, reservedAt: toTime("08:00"), isOverbooked };
}

/** Returns overlaps as `<from>-<to> <number of reservations>`. */
function find(capacity: number, reservations: Reservation[], fixture: string[] = []): string[] {
  const fixtureOccupations = fixture.map((hours) => {
    const [fromMs = 0, toMs = 0] = hours.split("-").map((time) => Date.parse(toTime(time)));
    return { ownerId: randomUUID(), fromMs, toMs };
  });
  return findOverlaps({ capacity, fixtureOccupations }, reservations).map(
    ({ from, to, reservations: { length } }) => `${from.slice(11, 16)}-${to.slice(11, 16)} ${length}`,
  );
}

describe("overlaps among reservations", () => {
  for (const [title, capacity, reservations, expected, fixture] of [
    [
      "two holders of one place overlap",
      1,
      [reserve(ada, "09:00-10:00"), reserve(ben, "09:30-11:00")],
      ["09:30-10:00 2"],
    ],
    ["reservations that only touch do not overlap", 1, [reserve(ada, "09:00-10:00"), reserve(ben, "10:00-11:00")], []],
    ["the reservations of one holder count once", 1, [reserve(ada, "09:00-10:00"), reserve(ada, "09:15-10:15")], []],
    [
      "an overbooked reservation does not count",
      1,
      [reserve(ada, "09:00-10:00"), reserve(ben, "09:00-10:00", true)],
      [],
    ],
    ["a capacity of 2.5 is two places", 2.5, [reserve(ada, "09:00-10:00"), reserve(ben, "09:00-10:00")], []],
    [
      "three holders of 2.5 places overlap",
      2.5,
      [reserve(ada, "09:00-10:00"), reserve(ben, "09:00-10:00"), reserve(cleo, "09:00-09:30")],
      ["09:00-09:30 3"],
    ],
    ["a resource with the capacity 0 has no place", 0, [reserve(ada, "09:00-10:00")], ["09:00-10:00 1"]],
    ["the fixture of a sandbox takes places", 1, [reserve(ada, "09:00-10:00")], ["09:30-10:00 1"], ["09:30-11:00"]],
    ["overlaps within the fixture are no overlaps of reservations", 1, [], [], ["09:00-10:00", "09:00-10:00"]],
  ] as [string, number, Reservation[], string[], string[]?][])
    it(title, () => {
      expect(find(capacity, reservations, fixture)).to.deep.equal(expected);
    });
});
