import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { pino } from "pino";
import { showStatus } from "../../../projection/cli/status.ts";
import { measureDeliveryDelays } from "../../../projection/status/facts.ts";
import { createMetrics } from "../../../projection/status/metrics.ts";
import { startReporter } from "../../../projection/status/reporter.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { eventually } from "../../support/eventually.ts";
import { insertFailingEndpoint } from "../../support/failing-endpoint.ts";
import { startReceiver } from "../../support/receiver.ts";
import { useResource } from "../../support/resources.ts";
import { createTestTerminal } from "../../support/terminal.ts";
import { createWorld } from "./world.ts";

const logger = createLogger("test", "silent");

describe("the operator's status of webhooks", () => {
  const world = useResource(createWorld);

  const readStatus = async (json: boolean) => {
    const { terminal, outputLines } = createTestTerminal();
    const { signal } = new AbortController();
    await showStatus({ ...world, logger, terminal, now: Date.now(), signal }, { json });
    return outputLines.join("\n");
  };

  /** Counts all deliveries. A log at EVENTSTORE_URL contains events of other tests, which cause more deliveries. */
  const countDeliveries = async () => {
    const { rows } = await world.pool.query<{ pending: number; failed: number }>(
      `SELECT count(*) FILTER (WHERE status = 'pending')::integer AS pending,
              count(*) FILTER (WHERE status = 'failed')::integer AS failed
         FROM webhooks.delivery`,
    );
    return rows[0]!;
  };

  it("the operator's status shows pending, due and failed deliveries, and the processes that send webhooks", async () => {
    expect(await readStatus(false)).to.contain(
      "  deliveries   0 pending, 0 due, 0 failed\n  process      no process was ever started",
    );
    const [goneReceiver, brokenReceiver] = [await startReceiver(), await startReceiver()];
    goneReceiver.setDefaultReaction({ status: 410 });
    brokenReceiver.setDefaultReaction({ status: 500 });
    const endpoints = [
      await world.registerEndpoint(goneReceiver.url),
      await world.registerEndpoint(brokenReceiver.url),
    ] as const;
    const metrics = createMetrics();
    const roles = [
      world.start.projectors(),
      world.start.relay(),
      world.start.webhooks({ retryScheduleSeconds: [3_600] }),
    ];
    const reporters = ["test:1", "test:2"].map((processName) =>
      startReporter({ ...world, roles, metrics, logger, processName }),
    );
    const [firstAppointment, secondAppointment] = [
      await world.requestAppointment(endpoints[0].clinicId),
      await world.requestAppointment(endpoints[1].clinicId),
    ];
    await world.awaitStatus(firstAppointment.eventId, endpoints[0], "failed");
    await world.waitForDelivery(
      secondAppointment.eventId,
      endpoints[1],
      ({ status, attempts }) => status === "pending" && attempts[0]?.status_code === 500,
    );
    const { text, counts } = await eventually("both processes, and the numbers of deliveries", async () => {
      const counts = await countDeliveries();
      const text = await readStatus(false);
      const hasCounts = text.includes(`  deliveries   ${counts.pending} pending, 0 due, ${counts.failed} failed\n`);
      return hasCounts && / is running, 1 more running$/m.test(text) && { text, counts };
    });
    expect(counts.pending).to.be.at.least(1);
    expect(counts.failed).to.be.at.least(1);
    expect(text).to.match(
      /^webhooks: sends deliveries to partners\n {2}position .*\n {2}deliveries .*\n {2}process {6}test:[12] is running, 1 more running\n {2}last error {3}none$/m,
    );
    const { node, icu, tz } = process.versions;
    expect(await readStatus(false)).to.contain(`\nruntime: Node.js ${node}, ICU ${icu}, time zone data ${tz}`);
    expect(JSON.parse(await readStatus(true)).runtime).to.deep.equal({ node, icu, tz });
    await eventually("the status as JSON", async () => {
      const { pending, failed } = await countDeliveries();
      const { webhooks } = JSON.parse(await readStatus(true));
      const hasCounts = webhooks.pending === pending && webhooks.due === 0 && webhooks.failed === failed;
      return hasCounts && webhooks.alive === true && webhooks.working === 2;
    });
    await eventually("the metric", async () => {
      const { failed } = await countDeliveries();
      return (await metrics.registry.metrics()).includes(`webhook_deliveries{state="failed"} ${failed}\n`);
    });
    for (const stopReporting of reporters) await stopReporting();
    for (const receiver of [goneReceiver, brokenReceiver]) await receiver.close();
  });

  it("a measurement that fails is logged once, and hides no other measurement", async () => {
    const lines: { level: number; step?: string }[] = [];
    const reporterLogger = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) });
    const metrics = createMetrics();
    await world.pool.query("ALTER TABLE projection.task_success RENAME TO former_task_success");
    const stopReporting = startReporter({ ...world, roles: [], metrics, logger: reporterLogger });
    const awaitReport = () => {
      metrics.deliveries.reset();
      metrics.oldestDueDelivery.reset();
      return eventually("the other metrics", async () => {
        const text = await metrics.registry.metrics();
        return text.includes("\nwebhook_deliveries{") && text.includes("\nwebhook_oldest_due_delivery_age_seconds{");
      });
    };
    await awaitReport();
    await awaitReport();
    const listSteps = (level: number) => lines.filter((line) => line.level === level).map(({ step }) => step);
    expect(listSteps(40).filter((step) => step === "daily tasks")).to.have.length(1);
    await world.pool.query("ALTER TABLE projection.former_task_success RENAME TO task_success");
    await eventually("the message that the measurement works", () => listSteps(30).includes("daily tasks"));
    await stopReporting();
  });

  it("the delay of due deliveries is measured separately for failing endpoints, and ignores inactive endpoints", async () => {
    const [healthy, failing] = [
      await world.registerEndpoint("https://healthy.test"),
      await world.registerEndpoint("https://failing.test"),
    ];
    const dueAt = Date.now() + 3_600_000;
    const insertDelivery = (endpointId: string, dueSeconds: number, attemptCount: number) =>
      world.pool.query(
        `INSERT INTO webhooks.pending_delivery (delivery_id, endpoint_id, event_id, event_position, next_attempt_at,
           failed_attempt_count, attempt_count)
         SELECT gen_random_uuid(), $1, gen_random_uuid(), 0, $2::timestamptz + make_interval(secs => $3), $4, $4`,
        [endpointId, new Date(dueAt), dueSeconds, attemptCount],
      );
    await world.pool.query("DELETE FROM webhooks.pending_delivery");
    await insertDelivery(healthy.endpointId, 0, 0);
    await insertDelivery(healthy.endpointId, 30, 0);
    await insertDelivery(failing.endpointId, 10, 3);
    await insertDelivery(randomUUID(), -1_000, 0);
    await insertFailingEndpoint(world.pool, failing.endpointId);
    await eventually("the read models contain the endpoints", async () => {
      const delays = await measureDeliveryDelays(world.pool, dueAt + 60_000);
      return delays.healthy === 60 && delays.failing === 50;
    });
    expect(await measureDeliveryDelays(world.pool, dueAt + 5_000)).to.deep.equal({ healthy: 5, failing: 0 });
    expect(await measureDeliveryDelays(world.pool, dueAt - 5_000)).to.deep.equal({ healthy: 0, failing: 0 });
  });
});
