import { expect } from "chai";
import { timeZones } from "../../../../shared/domain/time/time-zone.ts";

describe("time zones", () => {
  it("the runtime knows each permitted time zone", () => {
    for (const timeZone of timeZones) new Intl.DateTimeFormat("en", { timeZone });
    expect(timeZones.size).to.be.greaterThan(400);
  });

  for (const name of ["UTC", "Europe/Zurich", "Asia/Kolkata", "Europe/Kyiv", "America/Argentina/Buenos_Aires"])
    it(`the time zone ${name} is permitted`, () => {
      expect(timeZones.has(name)).to.equal(true);
    });

  for (const name of [
    ...["EST", "PST8PDT", "GMT", "GMT+5", "Etc/UTC", "Etc/GMT+5", "US/Eastern", "Zulu", "Z", "utc", "Cuba", "GB"],
    ...["europe/zurich", "Europe/ZURICH", "Europe/Atlantis", "Europe", "+02:00", "UTC+2", "posix/Asia/Tokyo"],
    ...["", " UTC", "Factory", "SystemV/PST8", "localtime"],
  ])
    it(`the time zone "${name}" is not permitted`, () => {
      expect(timeZones.has(name)).to.equal(false);
    });
});
