import { jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import type pg from "pg";
import { compareIndex } from "../../../../command/audit/index/compare-index.ts";
import { TREE_HEAD_STREAM } from "../../../../command/audit/tree/published-heads.ts";
import { eventually } from "../../../support/eventually.ts";
import { createClinicWithHistory, useAuditWorld } from "../world.ts";

describe("the comparison of the audit index with the log", () => {
  const { world, history } = useAuditWorld();
  let owner: pg.Pool;

  before(async () => {
    ({ owner } = world);
    await world.client.appendToStream("laboratory", jsonEvent({ type: "Sample", data: {} }));
    for (let count = 0; count < 2; count += 1) await createClinicWithHistory(world.log);
    await world.publishHead();
  });

  const verify = () => world.run(["verify-index"]);

  it("the command `verify-index` verifies an index that equals the log", async () => {
    const { code, output } = await verify();
    expect(code).to.equal(0);
    expect(output).to.match(/^the index equals the log up to position \d+, with \d+ events in the tree\n$/);
    const { rows } = await owner.query("SELECT verified_at IS NOT NULL AS verified FROM audit.checkpoint");
    expect(rows[0].verified).to.equal(true);
  });

  const alterations: [string, string, RegExp][] = [
    ["a row whose type was changed", "UPDATE audit.event SET type = 'Other' WHERE stream = $1", /differs from the log/],
    [
      "a row whose subjects were changed",
      "UPDATE audit.event SET subjects = '{}' WHERE stream = $1",
      /differs from the log/,
    ],
    ["a row whose actor was removed", "UPDATE audit.event SET actor = NULL WHERE stream = $1", /differs from the log/],
    ["a missing row", "DELETE FROM audit.event WHERE stream = $1", /is missing in the index/],
    [
      "a row of an event that the log does not have",
      `INSERT INTO audit.event SELECT position + 1, revision, leaf_number + 100000, event_id, correlation_id, causation_id,
         leaf_hash, stream, type, actor, occurred_at, stored_at, clinics, subjects, origins
       FROM audit.event WHERE stream = $1`,
      /is missing in the log/,
    ],
    [
      "an event that a subject lacks",
      "DELETE FROM audit.subject USING audit.event e WHERE e.position = subject.position AND e.stream = $1",
      /is not found under all its subjects/,
    ],
    [
      "an object whose first event is forgotten",
      "DELETE FROM audit.first_event USING audit.event e WHERE e.position = first_event.position AND e.stream = $1",
      /is not known as the first of its object/,
    ],
    [
      "an object that no event starts",
      "INSERT INTO audit.first_event SELECT gen_random_uuid(), position FROM audit.event WHERE stream = $1",
      /is wrongly known as the first of an object/,
    ],
    [
      "an object whose first event is an event of another object",
      `UPDATE audit.first_event f SET position = (SELECT min(position) FROM audit.event) FROM audit.event e
        WHERE e.position = f.position AND e.stream = 'laboratory' AND $1 <> ''`,
      /is wrongly known as the first of an object/,
    ],
    [
      "a changed node of the tree",
      "UPDATE audit.node SET hash = '\\x00' WHERE $1 <> ''",
      /has a wrong node of the tree/,
    ],
  ];
  for (const [name, sql, problem] of alterations) {
    it(`verify-index reports ${name}`, async () => {
      // The comparison reads what is committed, so the tables are restored from copies.
      const tables = ["event", "subject", "first_event", "node"];
      for (const table of tables) await owner.query(`CREATE TABLE public.${table} AS TABLE audit.${table}`);
      try {
        await owner.query(sql, [history.stream]);
        const { code, errorLines } = await verify();
        expect(code).to.equal(3);
        // On a busy machine, the command first reports its progress.
        expect(errorLines.at(-1)).to.match(problem);
      } finally {
        for (const table of tables)
          await owner.query(
            `BEGIN; TRUNCATE audit.${table}; INSERT INTO audit.${table} TABLE public.${table}; DROP TABLE public.${table}; COMMIT`,
          );
      }
      expect((await verify()).code).to.equal(0);
    });
  }

  it("a comparison that exceeds the time limit of Postgres is made in parts", async () => {
    const query = (statement: { name?: string; values: unknown[][] }) =>
      statement.name === "audit index compare" && (statement.values[2]?.length ?? 0) > 3
        ? world.pool.query("SET LOCAL statement_timeout = 1; SELECT pg_sleep(600)")
        : world.pool.query(statement as pg.QueryConfig);
    const pool: pg.Pool = Object.create(world.pool, { query: { value: query } });
    const compared = await compareIndex({ ...world, pool, signal: new AbortController().signal }, true);
    expect(compared?.leafCount).to.be.above(10);
  });

  it("an event of another program that the log no longer has is no difference", async () => {
    await owner.query("UPDATE audit.event SET position = position - 1 WHERE stream = 'laboratory'");
    await owner.query(
      `INSERT INTO audit.event SELECT position + 1, revision, leaf_number, event_id, correlation_id, causation_id,
         leaf_hash, stream, type, actor, occurred_at, stored_at, clinics, subjects, origins
       FROM audit.event WHERE stream = 'laboratory';
       INSERT INTO audit.first_event
       SELECT gen_random_uuid(), min(position) FROM audit.event WHERE stream = 'laboratory'`,
    );
    expect((await verify()).code).to.equal(0);
    for (const table of ["first_event", "event"])
      await owner.query(
        `DELETE FROM audit.${table} WHERE position = (SELECT min(position) FROM audit.event WHERE stream = 'laboratory')`,
      );
  });

  const readHeadRevision = async () => (await world.log.readLast(TREE_HEAD_STREAM))?.revision;

  it("no tree head is signed while the last verification found a difference, also in a row that was compared before", async () => {
    const setActor = (actor: string | null) =>
      owner.query("UPDATE audit.event SET actor = $2 WHERE stream = $1", [history.stream, actor]);
    const revision = await readHeadRevision();
    await createClinicWithHistory(world.log);
    await setActor(null);
    expect((await verify()).code).to.equal(3);
    const { code, errorLines } = await world.run(["tree-head"]);
    expect([code, await readHeadRevision()]).to.deep.equal([3, revision]);
    expect(errorLines.at(-1)).to.contain("differs from the log");
    await setActor("operator:test");
    await world.publishHead();
    expect(await readHeadRevision()).to.equal((revision ?? 0n) + 1n);
  });

  it("no tree head is signed over a row that differs from the log", async () => {
    const revisionBefore = await readHeadRevision();
    const { stream } = await createClinicWithHistory(world.log);
    await eventually(
      "the row",
      async () => (await owner.query("SELECT FROM audit.event WHERE stream = $1", [stream])).rowCount === 3,
    );
    await owner.query("UPDATE audit.event SET clinics = '{}' WHERE stream = $1", [stream]);
    const { code, errorLines } = await world.run(["tree-head"]);
    expect([code, await readHeadRevision()]).to.deep.equal([3, revisionBefore]);
    expect(errorLines.at(-1))
      .to.contain(`The event of stream ${stream} at position`)
      .and.contain("differs from the log");
  });
});
