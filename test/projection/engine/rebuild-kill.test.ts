import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import pg from "pg";
import { buildNodeCommand } from "../../../deploy/local/setup/project.ts";
import { readCheckpoint } from "../../../projection/checkpoints/checkpoint.ts";
import { FORMER_SCHEMA, NEXT_SCHEMA } from "../../../projection/engine/rebuild.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { eventually } from "../../support/eventually.ts";
import { useResource } from "../../support/resources.ts";
import { createEngineWorld, createRegisteredEvent, createRenamedEvent } from "../engine-world.ts";

/** Number of events. */
const CHANGE_COUNT = 900;
/** Pause between two reads, so that the reads leave CPU time for the rebuilds. Milliseconds. */
const READ_PAUSE_MS = 6;

describe("a rebuild that is killed with -9", () => {
  const world = useResource(createEngineWorld);
  const customerId = randomUUID();
  let logEnd: bigint;
  const blockerClients: pg.Client[] = [];
  const children: ChildProcess[] = [];
  const pollState = { isOver: false, polls: 0, wrongReads: [] as unknown[] };
  let pollLoop: Promise<void>;

  before(async () => {
    await world.append(`customer-${customerId}`, createRegisteredEvent(customerId, "Name 0"));
    const changes = Array.from({ length: CHANGE_COUNT }, (_, index) =>
      createRenamedEvent(customerId, `Name ${index + 1}`),
    );
    logEnd = await world.append(`customer-${customerId}`, ...changes);
    await world.rebuild();
    // The changed city shows whether a row comes from the former tables or from the tables that a rebuild has filled.
    await world.pool.query(`UPDATE ${READ_MODEL_SCHEMA}.customer SET city = 'former'`);
    pollLoop = keepReading();
  });

  after(async () => {
    pollState.isOver = true;
    for (const child of children) child.kill("SIGKILL");
    await pollLoop;
    await Promise.all(blockerClients.map((blocker) => blocker.end()));
  });

  /**
   * Reads more than a hundred times per second until the test ends. Each read must return exactly one complete row,
   * either of the former tables or of the new tables. After a read of the new tables, no read may return a row of the
   * former tables.
   */
  async function keepReading(): Promise<void> {
    let latestCity = "former";
    while (!pollState.isOver) {
      const { rows } = await world.pool.query<{ name: string; city: string; position: bigint }>(
        `SELECT full_name AS name, city, position FROM ${READ_MODEL_SCHEMA}.customer, ${READ_MODEL_SCHEMA}.checkpoint`,
      );
      const [row] = rows;
      const isRight =
        rows.length === 1 &&
        row?.name === `Name ${CHANGE_COUNT}` &&
        row.position === logEnd &&
        (row.city === latestCity || (latestCity === "former" && row.city === "Ljubljana"));
      if (row) latestCity = row.city;
      if (!isRight) pollState.wrongReads.push(rows);
      pollState.polls += 1;
      await sleep(READ_PAUSE_MS);
    }
  }

  /**
   * Takes a lock in a separate transaction, so that a rebuild waits for it.
   *
   * @returns a function that releases the lock
   */
  async function holdLock(sql: string): Promise<() => Promise<void>> {
    const blocker = new pg.Client({ connectionString: world.databaseUrl });
    blocker.on("error", () => undefined);
    blockerClients.push(blocker);
    await blocker.connect();
    await blocker.query("BEGIN");
    await blocker.query(sql);
    return async () => {
      await blocker.query("ROLLBACK");
    };
  }

  const isWaitingForTable = async () => {
    const { rowCount } = await world.pool.query(
      `SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE NOT granted AND locktype = 'relation' AND application_name = 'projection-cli' AND datname = current_database()`,
    );
    return (rowCount ?? 0) > 0;
  };

  function startRebuild(): ChildProcess {
    const { command, args } = buildNodeCommand("projection/cli/main.ts", ["rebuild"]);
    const child = spawn(command, args, {
      env: { ...process.env, EVENTSTORE_URL: world.eventstoreUrl, DATABASE_URL: world.databaseUrl },
      stdio: "ignore",
    });
    children.push(child);
    return child;
  }

  async function kill(child: ChildProcess): Promise<void> {
    const exitPromise = once(child, "exit");
    child.kill("SIGKILL");
    await exitPromise;
    // Postgres frees the locks when it notices the end of the connections.
    await eventually("the lock is free", async () => {
      const { rows } = await world.pool.query<{ free: boolean }>(
        "SELECT count(*) = 0 AS free FROM pg_stat_activity WHERE application_name = 'projection-cli' AND datname = current_database()",
      );
      return rows[0]?.free === true;
    });
  }

  const readCities = async () =>
    (await world.pool.query<{ city: string }>(`SELECT city FROM ${READ_MODEL_SCHEMA}.customer`)).rows;
  const hasSchema = async (schema: string) =>
    (await world.pool.query("SELECT FROM pg_namespace WHERE nspname = $1", [schema])).rowCount === 1;

  it("a rebuild that is killed before the swap leaves the current tables in use", async () => {
    const releaseTableLock = await holdLock(`SELECT FROM ${READ_MODEL_SCHEMA}.customer`);
    const child = startRebuild();
    await eventually("the rebuild waits for a long read to end", isWaitingForTable);
    expect((await readCheckpoint(world.pool, NEXT_SCHEMA)).position).to.equal(logEnd);
    await kill(child);
    await releaseTableLock();
    expect(await readCities()).to.deep.equal([{ city: "former" }]);
    expect(pollState.wrongReads).to.deep.equal([]);
  });

  it("if a rebuild is killed right after swapping the tables, the new tables stay in use, and the next run drops the old ones", async () => {
    await world.pool.query(`CREATE VIEW public.watched AS SELECT FROM ${READ_MODEL_SCHEMA}.customer`);
    const releaseViewLock = await holdLock("COMMENT ON VIEW public.watched IS 'in use'");
    const child = startRebuild();
    await eventually("it waits to drop the former tables", async () => {
      return (await hasSchema(FORMER_SCHEMA)) && (await isWaitingForTable());
    });
    expect(await readCities()).to.deep.equal([{ city: "Ljubljana" }]);
    const killPromise = kill(child);
    await releaseViewLock();
    await killPromise;
    await world.pool.query(`CREATE SCHEMA IF NOT EXISTS ${FORMER_SCHEMA}`);
    await world.rebuild();
    expect(await Promise.all([hasSchema(FORMER_SCHEMA), hasSchema(NEXT_SCHEMA)])).to.deep.equal([false, false]);
    expect((await readCheckpoint(world.pool, READ_MODEL_SCHEMA)).position).to.equal(logEnd);
    expect(pollState.wrongReads).to.deep.equal([]);
    expect(pollState.polls).to.be.above(100);
  });
});
