import fs from "node:fs";
import { expect } from "chai";
import pg from "pg";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { captureLogs } from "../../support/captured-logs.ts";
import { eventually } from "../../support/eventually.ts";
import { getTestServers } from "../../support/stack.ts";

/** Logs an error with the given fields. @returns the log line */
function logLine(fields: object): string {
  const logs = captureLogs();
  createLogger("test", "debug").error(fields, "failed");
  return logs.text();
}

describe("the log", () => {
  let client: pg.Client;

  before(async () => {
    client = new pg.Client({ connectionString: (await getTestServers()).adminDatabaseUrl });
    await client.connect();
  });

  after(() => client.end());

  for (const [code, statement] of [
    ["22P02", "SELECT 'Ada Example'::uuid"],
    ["22007", "SELECT 'Ada Example'::date"],
    ["23505", "CREATE TEMPORARY TABLE t (name text UNIQUE); INSERT INTO t VALUES ('Ada Example'), ('Ada Example')"],
    ["23514", "CREATE TEMPORARY TABLE c (name text CHECK (name = '')); INSERT INTO c VALUES ('Ada Example')"],
  ])
    it(`the log hides the value that Postgres quotes in error ${code}, even in the cause of another error`, async () => {
      const error = await client.query(statement!).catch((reason: unknown) => reason);
      expect(error).to.include({ code });
      const line = logLine({ error: new Error("outer", { cause: error }) });
      expect(line).to.not.contain("Ada");
      expect(JSON.parse(line).error.cause).to.deep.include({ code, message: "the database refused a value" });
      expect(logLine({ error })).to.not.contain("Ada");
    });

  it("the log shows name, message, code and causes of all other errors, but no stack", () => {
    const error = Object.assign(new TypeError("cannot", { cause: "why" }), { code: "ECONNREFUSED" });
    expect(JSON.parse(logLine({ error })).error).to.deep.equal({
      name: "TypeError",
      message: "cannot",
      code: "ECONNREFUSED",
      cause: "why",
    });
  });

  it("the log reports lost lines even at level error", async () => {
    const { write } = fs;
    const writtenLines: string[] = [];
    const callbacks: ((error: null, byteCount: number) => void)[] = [];
    fs.write = ((_fd: number, data: Buffer, done: (error: null, byteCount: number) => void) => {
      writtenLines.push(String(data));
      callbacks.push((error) => done(error, data.length));
    }) as unknown as typeof fs.write;
    try {
      const logger = createLogger("test", "error");
      for (let line = 0; line < 3_000; line += 1) logger.error({ text: "x".repeat(500) }, "a line");
      await eventually("the report is written", () => {
        for (const callback of callbacks.splice(0)) callback(null, 0);
        return writtenLines.at(-1)?.includes('"lost"');
      });
    } finally {
      fs.write = write;
    }
    const report = JSON.parse(writtenLines.at(-1) ?? "");
    expect(report).to.include({ level: "error" });
    expect(report.lost).to.be.greaterThan(0);
  });

  it("the log redacts members with secret names up to two levels deep", () => {
    const secrets = { authorization: "s3cret", cookie: "s3cret", clientSecret: "s3cret", password: "s3cret" };
    expect(logLine({ ...secrets, request: { ...secrets, headers: secrets } })).to.not.contain("s3cret");
  });
});
