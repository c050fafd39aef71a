import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { expect } from "chai";
import type pg from "pg";
import { createAuditSigner } from "../../../../command/audit/export/signing.ts";
import { TREE_HEAD_STREAM } from "../../../../command/audit/tree/published-heads.ts";
import { signTreeHead } from "../../../../command/audit/tree/tree-head.ts";
import { withClient } from "../../../../deploy/local/servers/database-roles.ts";
import { buildNodeCommand, PROJECT_FOLDER } from "../../../../deploy/local/setup/project.ts";
import type { AuditTreeEvent } from "../../../../shared/domain/events/audit.ts";
import { readConfig } from "../../../../shared/runtime/config.ts";
import { eventually } from "../../../support/eventually.ts";
import { createClinicWithHistory, getTypes, readJson, useAuditWorld } from "../world.ts";

describe("a rebuild of the audit index", () => {
  const { world, history, auditor } = useAuditWorld();
  let env: NodeJS.ProcessEnv;
  let owner: pg.Pool;
  let headFile: string;

  before(async () => {
    ({ owner } = world);
    env = { ...world.env, DATABASE_URL: world.database.urls.projection };
    for (let count = 0; count < 2; count += 1) await createClinicWithHistory(world.log);
    headFile = await world.publishHead();
  });

  const listEvents = async () => {
    const { status, lines, end } = await auditor.request(`/audit/v1/events?clinic=${history.clinicId}`);
    return { status, types: getTypes(lines), count: end?.count };
  };

  /** Reads the columns, indexes and privileges of the live tables. */
  const describeTables = async () => {
    const { rows } = await owner.query(
      `SELECT c.relname, c.relacl::text, array_agg(DISTINCT (a.attnum, a.attname, a.atttypid, a.attnotnull, a.attcollation)::text) AS columns,
              array_agg(DISTINCT pg_get_indexdef(i.indexrelid)) AS indexes
         FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 JOIN pg_index i ON i.indrelid = c.oid
        WHERE c.relnamespace = 'audit'::regnamespace AND c.relkind = 'r' GROUP BY c.oid ORDER BY c.relname`,
    );
    return rows;
  };
  const readTableId = async () => (await owner.query("SELECT tableoid AS id FROM audit.checkpoint")).rows[0].id;

  /**
   * Waits until a rebuild has created its tables. @returns an id of the tables
   *
   * @param formerTableId id of an earlier rebuild's tables, which do not count
   * @param isFilled if true, also waits until the tables are filled
   */
  async function awaitNext(formerTableId?: number, isFilled = false): Promise<number> {
    const sql = `SELECT n.tableoid AS id, n.position = l.position AS filled FROM audit_next.checkpoint n, audit.checkpoint l`;
    return eventually("the tables of the rebuild", async () => {
      const { rows } = await owner.query(sql).catch(() => ({ rows: [] }));
      return rows[0] && rows[0].id !== formerTableId && (rows[0].filled || !isFilled) && rows[0].id;
    });
  }

  /** Runs a function while a lock on the live tables prevents a rebuild from replacing them. */
  async function whileBlocked(run: () => Promise<void>): Promise<void> {
    await withClient(world.database.urls.projection, async (reader) => {
      await reader.query("BEGIN; LOCK TABLE audit.node IN ACCESS SHARE MODE");
      await run();
    });
  }

  it("questions are answered from the live index, which stays up to date, until the new one replaces it", async () => {
    await owner.query("UPDATE audit.event SET subjects = '{}' WHERE stream = $1", [history.stream]);
    expect((await world.run(["verify-index"])).code, "the index is damaged").to.equal(3);
    const [eventsBefore, tablesBefore] = [await listEvents(), await describeTables()];
    const run = world.run(["rebuild-index"], env);
    await whileBlocked(async () => {
      await awaitNext(undefined, true);
      expect(await listEvents()).to.deep.equal(eventsBefore);
      await createClinicWithHistory(world.log);
      expect(await listEvents(), "after further events").to.deep.equal(eventsBefore);
    });
    const { code, output } = await run;
    expect(code).to.equal(0);
    expect(output).to.match(/^the audit index was rebuilt up to position \d+, with \d+ events in the tree\n$/);
    expect(await listEvents()).to.deep.equal(eventsBefore);
    expect(await describeTables()).to.deep.equal(tablesBefore);
    expect((await world.run(["verify-index"])).code).to.equal(0);
    const args = ["--from", headFile, "--to", await world.publishHead()];
    expect((await world.run(["prove-consistency", ...args])).code).to.equal(0);
  });

  it("a killed rebuild leaves the live index as it was, and the next run starts again", async () => {
    const tableId = await readTableId();
    const { command, args } = buildNodeCommand("bin/clinic.ts", ["audit", "rebuild-index"]);
    await whileBlocked(async () => {
      let nextTableId: number | undefined;
      for (const isFilled of [false, true]) {
        const child = spawn(command, args, { cwd: PROJECT_FOLDER, env: { ...process.env, ...env }, stdio: "ignore" });
        const exit = once(child, "exit");
        nextTableId = await awaitNext(nextTableId, isFilled);
        child.kill("SIGKILL");
        await exit;
        expect((await listEvents()).status).to.equal(200);
      }
    });
    expect(await readTableId()).to.equal(tableId);
    expect((await world.run(["verify-index"])).code).to.equal(0);
    expect((await world.run(["rebuild-index"], env)).code).to.equal(0);
    expect(await readTableId()).not.to.equal(tableId);
    const { rowCount } = await owner.query("SELECT FROM pg_namespace WHERE nspname = 'audit_next'");
    expect([rowCount, (await listEvents()).status]).to.deep.equal([0, 200]);
  });

  it("an index without the tree of a published head comes into use only with `--new-tree`", async () => {
    const { treeHead } = readJson(await world.publishHead());
    const last = await world.log.readLast<AuditTreeEvent>(TREE_HEAD_STREAM);
    if (!last) throw new Error("no tree head is published");
    const signer = await createAuditSigner(readConfig(["AUDIT_SIGNING_KEYS"], world.env));
    const { signature } = await signTreeHead(signer, { ...treeHead, root: "00".repeat(32) });
    const event = { type: last.type, data: { ...last.data, signature } };
    const { metadata, revision } = last;
    await world.log.append(TREE_HEAD_STREAM, revision, [{ id: randomUUID(), event, metadata }]);
    const tableId = await readTableId();
    const { code, errorLines } = await world.run(["rebuild-index"], env);
    expect(code).to.equal(3);
    expect(errorLines.at(-1)).to.contain("it is a different log").and.contain("audit rebuild-index --new-tree");
    expect([await readTableId(), (await listEvents()).status]).to.deep.equal([tableId, 200]);
    expect((await world.run(["rebuild-index", "--new-tree"], env)).code).to.equal(0);
    expect(await readTableId()).not.to.equal(tableId);
    expect((await world.run(["tree-head"])).errorLines.at(-1)).to.contain("audit tree-head --new-tree");
    await world.publishHead(["--new-tree"]);
    expect((await world.run(["verify-index"])).code).to.equal(0);
  });
});
