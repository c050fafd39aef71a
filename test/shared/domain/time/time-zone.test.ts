import { expect } from "chai";
import { timeZones } from "../../../../shared/domain/time/time-zone.ts";

describe("time zones", () => {
  it("the runtime knows each permitted time zone", () => {
    for (const timeZone of timeZones) new Intl.DateTimeFormat("en", { timeZone });
    expect(timeZones.size).to.be.greaterThan(400);
  });

  it("only names of places and UTC are permitted", () => {
    const names = ["UTC", "Europe/Zurich", "Asia/Kolkata", "Europe/Kyiv", "America/Argentina/Buenos_Aires"];
    const otherNames = [
      ...["EST", "PST8PDT", "GMT", "GMT+5", "Etc/UTC", "Etc/GMT+5", "US/Eastern", "Zulu", "Z", "utc", "Cuba", "GB"],
      ...["europe/zurich", "Europe/ZURICH", "Europe/Atlantis", "Europe", "+02:00", "UTC+2", "posix/Asia/Tokyo"],
      ...["", " UTC", "Factory", "SystemV/PST8", "localtime"],
    ];
    expect([...names, ...otherNames].filter((name) => timeZones.has(name))).to.deep.equal(names);
  });
});
