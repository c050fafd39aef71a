import { expect } from "chai";
import pg from "pg";
import { timeZones } from "../../../../shared/domain/time/time-zone.ts";
import { getTestServers } from "../../../support/stack.ts";

describe("time zones", () => {
  it("the runtime and Postgres know each permitted time zone by the same name", async () => {
    const client = new pg.Client({ connectionString: (await getTestServers()).adminDatabaseUrl });
    await client.connect();
    const { rows } = await client.query<{ name: string }>("SELECT name FROM pg_timezone_names");
    await client.end();
    const knownNames = new Set(rows.map(({ name }) => name));
    expect([...timeZones].filter((name) => !knownNames.has(name))).to.deep.equal([]);
    for (const timeZone of timeZones) new Intl.DateTimeFormat("en", { timeZone });
    expect(timeZones.size).to.be.greaterThan(400);
  });

  for (const name of ["UTC", "Europe/Zurich", "Asia/Kolkata", "Europe/Kyiv", "America/Argentina/Buenos_Aires"]) {
    it(`the time zone ${name} is permitted`, () => {
      expect(timeZones.has(name)).to.equal(true);
    });
  }

  for (const name of [
    ...["EST", "PST8PDT", "GMT", "GMT+5", "Etc/UTC", "Etc/GMT+5", "US/Eastern", "Zulu", "Z", "utc", "Cuba", "GB"],
    ...["europe/zurich", "Europe/ZURICH", "Europe/Atlantis", "Europe", "+02:00", "UTC+2", "posix/Asia/Tokyo"],
    ...["", " UTC", "Factory", "SystemV/PST8", "localtime"],
  ]) {
    it(`the time zone "${name}" is not permitted`, () => {
      expect(timeZones.has(name)).to.equal(false);
    });
  }
});
