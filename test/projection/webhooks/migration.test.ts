import { randomUUID } from "node:crypto";
import { readdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { runner } from "node-pg-migrate";
import pg from "pg";
import { migrate } from "../../../projection/migrate.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { eventually } from "../../support/eventually.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { createTestDatabase, type TestDatabase } from "../../support/stack.ts";
import { createWorld, type Endpoint, type World } from "./world.ts";

const dir = fileURLToPath(new URL("../../../projection/migrations", import.meta.url));

/** Applies all migrations before the migration with the given number. */
async function migrateUntil(client: pg.Client, migrationNumber: string): Promise<void> {
  const names = (await readdir(dir)).sort();
  const count = names.findIndex((name) => name.startsWith(migrationNumber));
  await runner({
    ...{ dbClient: client, dir, direction: "up", migrationsTable: "migration", count },
    ...{ log: () => undefined, singleTransaction: true },
  });
}

describe("the migration of failing endpoints", () => {
  let database: TestDatabase;
  let client: pg.Client;

  before(async () => {
    database = await createTestDatabase();
    client = new pg.Client({ connectionString: database.urls.projection });
    await client.connect();
  });
  after(async () => {
    await client.end();
    await database.drop();
  });

  it("the migration keeps the start of a failure period and sets the number of failures to one", async () => {
    await migrateUntil(client, "000010");
    const endpointId = "018f3f3c-7a2b-7c11-9b52-6d2f8f1a0001";
    const since = new Date("2030-05-01T09:00:00.000Z");
    await client.query("INSERT INTO webhooks.failing_endpoint VALUES ($1, $2)", [endpointId, since]);
    await migrate(database.urls.projection, createLogger("test", "silent"));
    const { rows } = await client.query("SELECT * FROM webhooks.failing_endpoint");
    const unreportedPeriod = { since, failures: 1, last_failed_at: since, reported_at: null };
    expect(rows).to.deep.equal([{ endpoint_id: endpointId, ...unreportedPeriod }]);
  });
});

/** A delivery as earlier releases stored it. */
interface FormerDelivery {
  status: string;
  /** Number of attempts. Attempts of earlier rounds do not count in `roundAttempts`. */
  attemptCount: number;
  roundAttemptCount: number;
  /** Seconds from now. */
  nextAttemptInSeconds: number | null;
  /** Seconds from now. */
  leaseExpiresInSeconds?: number;
}

const formerDeliveries: Record<string, FormerDelivery> = {
  new: { status: "pending", attemptCount: 0, roundAttemptCount: 0, nextAttemptInSeconds: -1 },
  interrupted: {
    status: "pending",
    attemptCount: 1,
    roundAttemptCount: 1,
    nextAttemptInSeconds: -60,
    leaseExpiresInSeconds: -5,
  },
  interruptedRetry: {
    status: "pending",
    attemptCount: 5,
    roundAttemptCount: 2,
    nextAttemptInSeconds: -60,
    leaseExpiresInSeconds: -5,
  },
  leased: {
    status: "pending",
    attemptCount: 1,
    roundAttemptCount: 1,
    nextAttemptInSeconds: -60,
    leaseExpiresInSeconds: 3_600,
  },
  waiting: { status: "pending", attemptCount: 2, roundAttemptCount: 2, nextAttemptInSeconds: 3_600 },
  delivered: { status: "delivered", attemptCount: 1, roundAttemptCount: 1, nextAttemptInSeconds: null },
  failed: { status: "failed", attemptCount: 4, roundAttemptCount: 4, nextAttemptInSeconds: null },
};

describe("the migration of pending deliveries", () => {
  let formerWorld: World;
  let world: World;
  let database: TestDatabase;
  let receiver: Receiver;
  let endpoint: Endpoint;
  const ids = new Map(Object.keys(formerDeliveries).map((name) => [name, randomUUID()]));
  const buildBody = (name: string) => `{ "id": "${ids.get(name)}",  "text": "ü" }`;

  before(async () => {
    receiver = await startReceiver();
    // This world's log holds the endpoint. The database of the second world comes from an earlier release.
    formerWorld = await createWorld();
    endpoint = await formerWorld.registerEndpoint(receiver.url);
    database = await createTestDatabase();
    const client = new pg.Client({ connectionString: database.urls.projection });
    await client.connect();
    await migrateUntil(client, "000014");
    for (const [name, delivery] of Object.entries(formerDeliveries)) await insertFormerDelivery(client, name, delivery);
    await client.end();
    const { eventstoreUrl, natsUrl } = formerWorld;
    world = await createWorld({ eventstoreUrl, natsUrl, databaseUrl: database.urls.projection });
  });
  after(async () => {
    await world.close();
    await formerWorld.close();
    await database.drop();
    await receiver.close();
  });

  async function insertFormerDelivery(client: pg.Client, name: string, delivery: FormerDelivery): Promise<void> {
    const { status, attemptCount, roundAttemptCount, nextAttemptInSeconds, leaseExpiresInSeconds } = delivery;
    const { endpointId, applicationId, clinicId } = endpoint;
    await client.query(
      `INSERT INTO webhooks.delivery (delivery_id, endpoint_id, application_id, clinic_id, environment, event_id,
         event_type, event_stream, event_revision, body, status, attempt_count, round_attempt_count, cause_id,
         correlation_id, next_attempt_at, lease_expires_at, created_at, updated_at)
       VALUES ($1, $2, $3, $4, 'production', $1, 'appointment.created', 'appointment-1', 0, $5, $6, $7, $8, $1, $1,
         now() + $9 * interval '1 second', now() + $10 * interval '1 second', now(), now())`,
      [
        ...[
          ids.get(name),
          endpointId,
          applicationId,
          clinicId,
          buildBody(name),
          status,
          attemptCount,
          roundAttemptCount,
        ],
        ...[nextAttemptInSeconds, leaseExpiresInSeconds],
      ],
    );
    await client.query(
      "INSERT INTO webhooks.attempt (delivery_id, number, started_at) SELECT $1, n, now() FROM generate_series(1, $2::integer) n",
      [ids.get(name), attemptCount],
    );
  }

  it("the migration moves the pending deliveries and counts only recorded outcomes", async () => {
    const { rows } = await world.pool.query(
      "SELECT delivery_id, round_attempt_count, attempt_count, body FROM webhooks.pending_delivery",
    );
    const createMovedRow = (name: string, roundAttemptCount: number, attemptCount: number) => ({
      delivery_id: ids.get(name),
      round_attempt_count: roundAttemptCount,
      attempt_count: attemptCount,
      body: buildBody(name),
    });
    expect(rows).to.have.deep.members([
      createMovedRow("new", 0, 0),
      createMovedRow("interrupted", 0, 1),
      createMovedRow("interruptedRetry", 1, 5),
      createMovedRow("leased", 0, 1),
      createMovedRow("waiting", 2, 2),
    ]);
    const { rows: failedRows } = await world.pool.query("SELECT delivery_id FROM webhooks.delivery WHERE is_failed");
    expect(failedRows).to.deep.equal([{ delivery_id: ids.get("failed") }]);
  });

  it("no index of the delivery table depends on a column that changes when a delivery succeeds", async () => {
    const { rows } = await world.pool.query<{ column: string }>(
      `SELECT DISTINCT a.attname AS column
         FROM pg_index i
         JOIN pg_depend p ON p.objid = i.indexrelid AND p.refobjid = i.indrelid AND p.refobjsubid > 0
         JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = p.refobjsubid
        WHERE i.indrelid = 'webhooks.delivery'::regclass`,
    );
    expect(rows.map(({ column }) => column)).to.include("is_failed");
    for (const changingColumn of ["status", "attempt_count", "next_attempt_at", "updated_at"]) {
      expect(rows.map(({ column }) => column)).not.to.include(changingColumn);
    }
  });

  it("due deliveries of an earlier release are sent with their stored bodies, unless another process holds the lease", async () => {
    world.start.projectors();
    world.start.webhooks();
    const names = ["new", "interrupted", "interruptedRetry"];
    const readStatuses = () =>
      world.pool.query<{ delivery_id: string; status: string; attempt_count: number }>(
        "SELECT delivery_id, status, attempt_count FROM webhooks.delivery",
      );
    await eventually("the due deliveries", async () => {
      const { rows } = await readStatuses();
      return names.every((name) => rows.some((row) => row.delivery_id === ids.get(name) && row.status === "delivered"));
    });
    expect(receiver.requests.map(({ body }) => body)).to.have.members(names.map(buildBody));
    const attemptCounts = new Map((await readStatuses()).rows.map((row) => [row.delivery_id, row.attempt_count]));
    expect(names.map((name) => attemptCounts.get(ids.get(name)!))).to.deep.equal([1, 2, 6]);
    const { rows } = await world.pool.query("SELECT delivery_id FROM webhooks.pending_delivery");
    expect(rows).to.have.deep.members([{ delivery_id: ids.get("leased") }, { delivery_id: ids.get("waiting") }]);
  });
});
