import { expect } from "chai";
import type pg from "pg";
import { pruneReadModels } from "../../../projection/engine/prune.ts";
import { holdReadModelLock, type ReadModelLock } from "../../../shared/postgres/read-model-lock.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { StartError } from "../../../shared/runtime/run-service.ts";
import { createTestPool } from "../../support/connections.ts";
import { eventually } from "../../support/eventually.ts";
import { createDatabaseWithReadModels } from "../../support/migrated-database.ts";
import { listLockHolders, startReadModelUsers } from "../../support/read-model-users.ts";
import { useResource } from "../../support/resources.ts";
import { logger } from "../engine-world.ts";

const OTHER_SCHEMA = "read_model_of_other_release";

/**
 * Time after which a schema without a lock counts as unused. A process takes its lock again much sooner. Milliseconds.
 */
const UNUSED_MS = 60_000;

describe("prune", () => {
  const database = useResource(createDatabaseWithReadModels);
  let pool: pg.Pool;
  const locks: ReadModelLock[] = [];

  before(async () => {
    const { projection: url } = database.urls;
    pool = createTestPool(url);
  });

  beforeEach(() => pool.query(`CREATE SCHEMA ${OTHER_SCHEMA} CREATE TABLE checkpoint (position bigint)`));

  afterEach(async () => {
    for (const lock of locks.splice(0)) await lock.release();
    await pool.query(`DROP SCHEMA IF EXISTS ${OTHER_SCHEMA} CASCADE`);
  });

  const listHolders = () => listLockHolders(pool);
  const holdLock = async (service: string, detail?: string) => {
    const { projection: databaseUrl } = database.urls;
    const lock = holdReadModelLock({ databaseUrl, schema: OTHER_SCHEMA, service, ...(detail && { detail }), logger });
    locks.push(lock);
    await eventually("it holds the lock", async () =>
      (await listHolders()).some(({ name }) => name.startsWith(service)),
    );
    return lock;
  };
  const prune = async (unusedMs: number) => {
    const pruned = await pruneReadModels(pool, new AbortController().signal, unusedMs).catch((error: Error) => error);
    if (!(pruned instanceof Error)) return pruned.join();
    expect(pruned).to.be.instanceOf(StartError);
    return pruned.message;
  };

  it("prune names all processes that use the read models, with any roles, and drops nothing", async () => {
    await holdLock("query-api");
    await holdLock("projection", "relay,webhooks");
    expect(await prune(0)).to.match(
      /^Processes of other releases still use their read models: projection \S+:\d+ relay,webhooks \(read_model_of_other_release\), query-api \S+:\d+ \(read_model_of_other_release\)\. Stop these processes first\.$/,
    );
    for (const lock of locks.splice(0)) await lock.release();
    expect(await prune(0)).to.equal(OTHER_SCHEMA);
  });

  it("prune does not overlook a process that has just lost its connection", async () => {
    await holdLock("projection");
    const [holder] = await listHolders();
    await pool.query("SELECT pg_terminate_backend($1)", [holder?.pid]);
    await eventually("the connection is lost", async () => (await listHolders())[0]?.pid !== holder?.pid);
    expect(await prune(UNUSED_MS)).to.match(/still use their read models: projection \S+ \(/);
    await eventually("the process holds the lock again", async () => (await listHolders()).length === 1);
  });

  it("a process reports that its read models were dropped", async () => {
    await pool.query(`DROP SCHEMA ${OTHER_SCHEMA} CASCADE`);
    await (await holdLock("projection")).missing;
  });

  it("projection, query-api and audit lock the read models, and projection fails if they are dropped", async () => {
    const { projection, queryApi, audit } = await startReadModelUsers(database.urls);
    try {
      await eventually("all hold the lock", async () => {
        const names = (await listHolders()).map(({ name }) => name.replace(/ \S+:\d+/, ""));
        return names.join() === "audit,projection webhooks,query-api";
      });
      // A drop locks all tables, so it can deadlock with the services' queries. To the services, a rename looks the same.
      await pool.query(`ALTER SCHEMA ${READ_MODEL_SCHEMA} RENAME TO dropped`);
      expect((await projection.failure)?.message).to.contain(`The read models ${READ_MODEL_SCHEMA} do not exist`);
    } finally {
      await Promise.all([projection.stop(), queryApi.stop(), audit.stop()]);
    }
    // On a busy machine, Postgres may notice the end of a connection after the service has stopped.
    await eventually("no locks are held", async () => (await listHolders()).length === 0);
  });
});
