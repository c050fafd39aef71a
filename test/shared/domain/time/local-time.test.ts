import { expect } from "chai";
import { getStartOfDay } from "../../../../shared/domain/time/local-time.ts";
import { toInstant } from "../../../../shared/domain/time/rfc3339.ts";

describe("local time", () => {
  const days: [timeZone: string, date: string, expectedStart: string][] = [
    ["UTC", "2026-05-06", "2026-05-06T00:00:00.000Z"],
    ["Europe/Zurich", "2026-05-06", "2026-05-05T22:00:00.000Z"],
    ["Europe/Zurich", "2026-03-29", "2026-03-28T23:00:00.000Z"],
    ["Europe/Zurich", "2026-03-30", "2026-03-29T22:00:00.000Z"],
    ["Asia/Kolkata", "2026-05-06", "2026-05-05T18:30:00.000Z"],
    // The clocks skip the hour after midnight.
    ["Asia/Beirut", "2026-03-29", "2026-03-28T22:00:00.000Z"],
  ];
  for (const [timeZone, date, expectedStart] of days) {
    it(`the day ${date} in ${timeZone} starts at ${expectedStart}`, () => {
      expect(toInstant(getStartOfDay(timeZone, date))).to.equal(expectedStart);
    });
  }
});
