import { expect } from "chai";
import pg from "pg";
import { isPostgresUnavailable } from "../../../shared/postgres/unavailable.ts";

const createDatabaseError = (code: string) => Object.assign(new pg.DatabaseError("words", 5, "error"), { code });

describe("errors that mean Postgres is unavailable", () => {
  const temporaryErrors = {
    "admin shutdown": "57P01",
    "cannot connect now": "57P03",
    "statement timed out": "57014",
    "too many connections": "53300",
    "disk full": "53100",
    deadlock: "40P01",
    "serialization failure": "40001",
    "lock not available": "55P03",
    "connection failure": "08006",
    "read-only server": "25006",
  };
  for (const [errorName, code] of Object.entries(temporaryErrors)) {
    it(`the Postgres error "${errorName}" (${code}) is temporary`, () =>
      expect(isPostgresUnavailable(createDatabaseError(code))).to.equal(true));
  }

  const permanentErrors = {
    "invalid value": "22P02",
    "duplicate value": "23505",
    "missing table": "42P01",
    "wrong password": "28P01",
  };
  for (const [errorName, code] of Object.entries(permanentErrors)) {
    it(`the Postgres error "${errorName}" (${code}) is permanent`, () =>
      expect(isPostgresUnavailable(createDatabaseError(code))).to.equal(false));
  }
});
