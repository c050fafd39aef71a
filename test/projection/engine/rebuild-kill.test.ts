import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import pg from "pg";
import { buildNodeCommand } from "../../../deploy/local/setup/project.ts";
import { readCheckpoint } from "../../../projection/checkpoints/checkpoint.ts";
import { getSwapLockName } from "../../../projection/engine/apply-batch.ts";
import { FORMER_SCHEMA, NEXT_SCHEMA } from "../../../projection/engine/rebuild.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { eventually } from "../../support/eventually.ts";
import { useResource } from "../../support/resources.ts";
import { createEngineWorld, createRegisteredEvent, createRenamedEvent } from "../engine-world.ts";

/** Number of events that rename the customer: enough for two batches. */
const CHANGE_COUNT = 2_700;
const APPEND_COUNT = 900;
/** Pause between two reads, which leaves CPU time for the rebuilds. Milliseconds. */
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
    for (let firstNumber = 1; firstNumber <= CHANGE_COUNT; firstNumber += APPEND_COUNT) {
      const changes = Array.from({ length: APPEND_COUNT }, (_, index) =>
        createRenamedEvent(customerId, `Name ${firstNumber + index}`),
      );
      logEnd = await world.append(`customer-${customerId}`, ...changes);
    }
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
   * Reads constantly until the test ends, and records wrong results. Each read must return exactly one complete row,
   * from either the former or the new tables. After a read of the new tables, the former tables must not be visible any
   * more.
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
   * Opens a transaction that holds a lock for which a rebuild waits.
   *
   * @returns a function that releases the lock
   */
  async function holdLock(sql: string, values: unknown[] = []): Promise<() => Promise<void>> {
    const blocker = new pg.Client({ connectionString: world.databaseUrl });
    blocker.on("error", () => undefined);
    blockerClients.push(blocker);
    await blocker.connect();
    await blocker.query("BEGIN");
    await blocker.query(sql, values);
    return async () => {
      await blocker.query("ROLLBACK");
    };
  }

  const LOCK_SQL = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";

  const isWaitingFor = async (lockType: string) => {
    const { rowCount } = await world.pool.query(
      `SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE NOT granted AND locktype = $1 AND application_name = 'projection-cli' AND datname = current_database()`,
      [lockType],
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

  it("a rebuild killed before, between or after batches leaves the current tables in use, and the next rebuild continues", async () => {
    const releaseFirstLock = await holdLock(LOCK_SQL, [getSwapLockName(NEXT_SCHEMA)]);
    const firstRebuild = startRebuild();
    await eventually("the rebuild waits to write its first batch", () => isWaitingFor("advisory"));
    const firstKillPromise = kill(firstRebuild);
    await releaseFirstLock();
    await firstKillPromise;
    expect(await readCities()).to.deep.equal([{ city: "former" }]);
    expect(await hasSchema(NEXT_SCHEMA)).to.equal(true);

    const releaseSecondLock = await holdLock(LOCK_SQL, [getSwapLockName(NEXT_SCHEMA)]);
    const secondRebuild = startRebuild();
    await eventually("the rebuild waits to write", () => isWaitingFor("advisory"));
    // The second lock of the test waits until the first batch is written. The second batch then waits for this lock.
    const thirdLockPromise = holdLock(LOCK_SQL, [getSwapLockName(NEXT_SCHEMA)]);
    await eventually("the queue", async () => {
      const { rowCount } = await world.pool.query(
        "SELECT FROM pg_locks WHERE NOT granted AND locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
      );
      return rowCount === 2;
    });
    await releaseSecondLock();
    const releaseThirdLock = await thirdLockPromise;
    await eventually("the rebuild waits to write its second batch", () => isWaitingFor("advisory"));
    const middleCheckpoint = await readCheckpoint(world.pool, NEXT_SCHEMA);
    expect(
      middleCheckpoint.position > 0n && middleCheckpoint.position < logEnd,
      `${middleCheckpoint.position} of ${logEnd}`,
    ).to.equal(true);
    const secondKillPromise = kill(secondRebuild);
    await releaseThirdLock();
    await secondKillPromise;
    expect(await readCities()).to.deep.equal([{ city: "former" }]);

    const releaseTableLock = await holdLock(`SELECT FROM ${READ_MODEL_SCHEMA}.customer`);
    const thirdRebuild = startRebuild();
    await eventually("the rebuild waits for a long read to end", () => isWaitingFor("relation"));
    const fullCheckpoint = await readCheckpoint(world.pool, NEXT_SCHEMA);
    expect([fullCheckpoint.position, fullCheckpoint.tableOid]).to.deep.equal([logEnd, middleCheckpoint.tableOid]);
    await kill(thirdRebuild);
    await releaseTableLock();
    expect(await readCities()).to.deep.equal([{ city: "former" }]);
    expect(pollState.wrongReads).to.deep.equal([]);
  });

  it("if a rebuild is killed right after swapping the tables, the new tables stay in use, and the next run drops the old ones", async () => {
    await world.pool.query(`CREATE VIEW public.watched AS SELECT FROM ${READ_MODEL_SCHEMA}.customer`);
    const releaseViewLock = await holdLock("COMMENT ON VIEW public.watched IS 'in use'");
    const child = startRebuild();
    await eventually("it waits to drop the former tables", async () => {
      return (await hasSchema(FORMER_SCHEMA)) && (await isWaitingFor("relation"));
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
