import { randomUUID } from "node:crypto";
import { expect } from "chai";
import pg from "pg";
import { ensureReadModels } from "../../../../projection/prepare-database.ts";
import { readModels } from "../../../../projection/read-models/all.ts";
import { trackFailingEndpoints } from "../../../../projection/webhooks/record/failing-endpoints.ts";
import type { FinishedAttempt } from "../../../../projection/webhooks/send/attempt-delivery.ts";
import { eventually } from "../../../support/eventually.ts";
import { createMigratedDatabase } from "../../../support/migrated-database.ts";
import type { TestDatabase } from "../../../support/stack.ts";

const NOW = Date.parse("2030-05-01T09:00:00.000Z");

describe("the failures of an endpoint", () => {
  let database: TestDatabase;
  let pool: pg.Pool;

  before(async () => {
    database = await createMigratedDatabase();
    pool = new pg.Pool({ connectionString: database.urls.projection });
    await ensureReadModels(pool, readModels);
  });
  after(async () => {
    await pool.end();
    await database.drop();
  });
  beforeEach(() => pool.query("DELETE FROM webhooks.failing_endpoint"));

  const createFinishedAttempt = (endpointId: string, error: string | null) =>
    ({
      delivery: { endpointId },
      result: { error },
      verdict: { status: error === null ? "delivered" : "pending" },
    }) as FinishedAttempt;
  const listFailingEndpointIds = async () => {
    const { rows } = await pool.query("SELECT endpoint_id FROM webhooks.failing_endpoint ORDER BY endpoint_id");
    return rows.map(({ endpoint_id }) => endpoint_id);
  };

  it("attempts that the service could not sign or send do not count as failures of the endpoint", async () => {
    const [unsignedEndpointId, refusingEndpointId] = [randomUUID(), randomUUID()];
    const client = await pool.connect();
    await trackFailingEndpoints(
      client,
      [
        createFinishedAttempt(unsignedEndpointId, "not_signed"),
        createFinishedAttempt(refusingEndpointId, "connection_refused"),
        createFinishedAttempt(unsignedEndpointId, "egress_proxy_failed"),
      ],
      NOW,
    );
    client.release();
    expect(await listFailingEndpointIds()).to.deep.equal([refusingEndpointId]);
  });

  it("two processes can count failures of the same endpoints concurrently without a deadlock", async () => {
    const [minEndpointId, maxEndpointId] = [randomUUID(), randomUUID()].sort() as [string, string];
    const [firstClient, otherClient] = [await pool.connect(), await pool.connect()];
    await trackFailingEndpoints(firstClient, [createFinishedAttempt(maxEndpointId, "timeout")], NOW);
    await Promise.all([firstClient, otherClient].map((client) => client.query("BEGIN")));
    let secondTransactionPromise: Promise<unknown> | undefined;
    const isTransactionWaiting = async () => {
      const { rowCount } = await pool.query(
        "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
      );
      return rowCount === 1;
    };
    // The first transaction locks the row of `b`. Before it inserts a row for `a`, it waits until the second
    // transaction waits for a lock.
    const pausedClient = {
      async query(config: string | pg.QueryConfig, values?: unknown[]) {
        if (typeof config !== "string" && config.name === "endpoints fail") {
          secondTransactionPromise = trackFailingEndpoints(
            otherClient,
            [createFinishedAttempt(minEndpointId, "timeout"), createFinishedAttempt(maxEndpointId, "timeout")],
            NOW,
          );
          await eventually("the second transaction waits", isTransactionWaiting);
        }
        return typeof config === "string" ? firstClient.query(config, values) : firstClient.query(config);
      },
    } as unknown as pg.ClientBase;
    await trackFailingEndpoints(
      pausedClient,
      [createFinishedAttempt(maxEndpointId, null), createFinishedAttempt(minEndpointId, "timeout")],
      NOW,
    );
    await firstClient.query("COMMIT");
    await secondTransactionPromise;
    await otherClient.query("COMMIT");
    firstClient.release();
    otherClient.release();
    expect(await listFailingEndpointIds()).to.deep.equal([minEndpointId, maxEndpointId]);
  });
});
