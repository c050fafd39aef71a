import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type pg from "pg";
import { trackFailingEndpoints } from "../../../../projection/webhooks/record/failing-endpoints.ts";
import { writeOutcomes } from "../../../../projection/webhooks/record/outcomes.ts";
import { findEndpointFailures } from "../../../../projection/webhooks/record/record-events.ts";
import type { FinishedAttempt } from "../../../../projection/webhooks/send/attempt-delivery.ts";
import type { WebhookEndpointEvent } from "../../../../shared/domain/events/partner.ts";
import { inTransaction } from "../../../../shared/postgres/pool.ts";
import { eventually } from "../../../support/eventually.ts";
import { useResource } from "../../../support/resources.ts";
import { createWorld, type Endpoint } from "../world.ts";

const DAY_MS = 24 * 60 * 60 * 1_000;

const createAttempt = (endpointId: string, error: string | null, isGone = false) =>
  ({
    delivery: { deliveryId: endpointId, attemptNumber: 1, endpointId, causeId: endpointId, correlationId: endpointId },
    result: { error },
    verdict: error === null ? { status: "delivered" } : { status: "failed", isGone },
  }) as FinishedAttempt;

describe("the failures of an endpoint", () => {
  const world = useResource(createWorld);
  let endpoint: Endpoint;
  let startMs: number;

  before(async () => {
    world.start.projectors();
  });
  beforeEach(async () => {
    await world.pool.query("DELETE FROM webhooks.failing_endpoint");
    endpoint = await world.registerEndpoint("https://hooks.example.com/");
    await world.awaitRows("webhook_endpoint", "endpoint_id = $1", [endpoint.endpointId]);
    startMs = Date.now();
  });

  const track = (day: number, ...outcomes: FinishedAttempt[]) =>
    inTransaction(world.pool, (client) => trackFailingEndpoints(client, outcomes, startMs + day * DAY_MS));
  /** Records two failed attempts on each of the given days, and successful attempts at other endpoints. */
  const fail = async (...days: number[]) => {
    const failure = createAttempt(endpoint.endpointId, "timeout");
    for (const day of days) await track(day, failure, createAttempt(randomUUID(), null), failure);
  };
  const listRows = async () => {
    const { rows } = await world.pool.query<{ id: string; isDisabled: boolean }>(
      'SELECT endpoint_id AS id, is_disabled AS "isDisabled" FROM webhooks.failing_endpoint ORDER BY endpoint_id',
    );
    return rows;
  };
  const listIds = async () => (await listRows()).map(({ id }) => id);
  const expectDisabled = async (isDisabled: boolean) =>
    expect(await listRows()).to.deep.equal([{ id: endpoint.endpointId, isDisabled }]);
  const enable = async () => {
    await world.changeEndpoint(endpoint, "WebhookEndpointDisabled", { reason: "operator" });
    await world.changeEndpoint(endpoint, "WebhookEndpointEnabled");
    await world.awaitRows("webhook_endpoint", "endpoint_id = $1 AND enabled_at > created_at", [endpoint.endpointId]);
  };

  const cases: { title: string; days: number[]; nextDay?: number }[] = [
    { title: "disable it after five days without a success", days: [0, 1, 2, 3, 4, 5], nextDay: 5.01 },
    { title: "disable it only after ten failed attempts", days: [0, 1.9, 3.8, 5.6], nextDay: 5.7 },
    {
      title: "do not disable it if no attempts were made for two days",
      days: [...Array(6).fill(0), 5.1, 5.1, 5.1, 5.1],
    },
  ];
  for (const { title, days, nextDay } of cases)
    it(title, async () => {
      await fail(...days);
      await expectDisabled(false);
      if (nextDay === undefined) return;
      await fail(nextDay);
      await expectDisabled(true);
      await world.recordEvents(await findEndpointFailures(world.pool));
      const events = await world.log.read<WebhookEndpointEvent>(`webhookEndpoint-${endpoint.endpointId}`);
      expect(events.at(-1)?.data).to.deep.include({ reason: "no_success" });
    });

  it("start a new period after a success", async () => {
    await fail(0, 1, 2, 3, 4);
    await track(4.5, createAttempt(endpoint.endpointId, null));
    await fail(5.1, 6, 7, 8, 9, 10);
    await expectDisabled(false);
    await fail(10.2);
    await expectDisabled(true);
  });

  for (const days of [
    [0, 1, 2, 3, 4],
    [0, 1, 2, 3, 4, 5.1],
  ])
    it(`start a new period after the endpoint was enabled, after ${days.length} days of failures`, async () => {
      await fail(...days);
      await enable();
      await fail(5.2);
      await expectDisabled(false);
    });

  it("disable it if the receiver returns 410, and no later success changes that", async () => {
    const failingEndpointId = randomUUID();
    const ids = [endpoint.endpointId, failingEndpointId];
    const successes = ids.map((id) => createAttempt(id, null));
    for (const succeed of [
      () => track(0, ...successes),
      () => writeOutcomes(world.pool, successes, { skipsLocked: false, now: startMs }),
    ]) {
      const gone = createAttempt(endpoint.endpointId, "gone", true);
      await track(0, gone, successes[0]!, createAttempt(failingEndpointId, "timeout"));
      expect(await listIds()).to.have.members(ids);
      await succeed();
      await expectDisabled(true);
    }
  });

  it("do not include attempts that the service could not sign or send", async () => {
    const [unsignedId, refusingId] = [randomUUID(), randomUUID()];
    const errors = [
      [unsignedId, "not_signed"],
      [refusingId, "connection_refused"],
      [unsignedId, "egress_proxy_failed"],
    ];
    await track(0, ...errors.map(([id, error]) => createAttempt(id!, error!)));
    expect(await listIds()).to.deep.equal([refusingId]);
  });

  it("are counted by two processes concurrently without a deadlock", async () => {
    const [minId, maxId] = [randomUUID(), randomUUID()].sort() as [string, string];
    const isTransactionWaiting = async () => {
      const { rowCount } = await world.pool.query(
        "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
      );
      return rowCount === 1;
    };
    await track(0, createAttempt(maxId, "timeout"));
    let otherTransaction: Promise<unknown> | undefined;
    await inTransaction(world.pool, async (client) => {
      // The first transaction locks the row of `maxId`. Before it inserts a row for `minId`, it waits until the second
      // transaction waits for a lock.
      const pausedClient = {
        async query(config: string | pg.QueryConfig, values?: unknown[]) {
          if (typeof config !== "string" && config.name === "endpoints fail") {
            otherTransaction = track(0, createAttempt(minId, "timeout"), createAttempt(maxId, "timeout"));
            await eventually("the second transaction waits", isTransactionWaiting);
          }
          return client.query(config as string, values);
        },
      } as unknown as pg.ClientBase;
      await trackFailingEndpoints(pausedClient, [createAttempt(maxId, null), createAttempt(minId, "timeout")], startMs);
    });
    await otherTransaction;
    expect(await listIds()).to.deep.equal([minId, maxId]);
  });
});
