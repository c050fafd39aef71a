import { randomUUID } from "node:crypto";
import { cp, rm } from "node:fs/promises";
import { expect } from "chai";
import pg from "pg";
import type { Stack } from "../../deploy/local/stack/stack.ts";
import { readLogEnd } from "../../projection/checkpoints/log-end.ts";
import { DIFFERENT_LOG } from "../../projection/checkpoints/same-log.ts";
import { connectEventStore } from "../../shared/eventstore/connect.ts";
import { runCli } from "../projection/service-process.ts";
import { eventually } from "../support/eventually.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";
import { startTestStack } from "../support/stack.ts";
import { createWorld, type World } from "./world.ts";

/** If true, the tests are skipped, because tests must not stop external servers. */
const hasExternalServers = ["EVENTSTORE_URL", "DATABASE_URL", "NATS_URL"].some((name) => process.env[name]);

(hasExternalServers ? describe.skip : describe)("a log that was restored from an older copy", function () {
  this.timeout(300_000);
  let stack: Stack;
  let world: World;
  let receiver: Receiver;
  let pool: pg.Pool;

  before(async () => {
    const retrySchedule = Array.from({ length: 20 }, () => "1").join(",");
    stack = await startTestStack({ serviceEnv: { projection: { WEBHOOK_RETRY_SCHEDULE: retrySchedule } } });
    world = await createWorld(stack);
    receiver = await startReceiver();
    pool = new pg.Pool({ connectionString: stack.servers.databaseUrls.projection });
    const body = { url: receiver.url, events: ["appointment.created"] };
    expect((await world.requestPartner("POST", "/webhook-endpoints", { body })).status).to.equal(201);
  });

  after(async () => {
    await pool?.end();
    await receiver?.close();
    await stack?.stop();
  });

  const createAppointment = async (): Promise<string> => {
    const createResponse = await eventually(
      "an appointment",
      async () => {
        const response = await world.createAppointment(`log-${randomUUID()}`);
        return response.status === 201 && response;
      },
      30_000,
    );
    return createResponse.body.appointment.id;
  };
  const parseAppointmentId = (body: string): string => JSON.parse(body).data.appointment.id;
  const countWebhooks = (id: string) => receiver.requests.filter(({ body }) => parseAppointmentId(body) === id).length;
  const awaitWebhook = (id: string) => eventually("the webhook", () => countWebhooks(id) > 0, 30_000);
  const listShownIds = async () => [...(await world.listPortalAppointments()).keys()];
  const awaitAppointment = (id: string) =>
    eventually("the appointment", async () => (await listShownIds()).includes(id), 30_000);
  const readHealth = async () => {
    const response = await fetch(`${stack.urls.projection}/health/ready`);
    return {
      status: response.status,
      parts: ((await response.json()) as { parts: Record<string, string | null> }).parts,
    };
  };
  const awaitReadiness = () => eventually("ready", async () => (await readHealth()).status === 200, 30_000);
  /** Returns all data that the projection service writes, and the end of the log. */
  const readWrittenData = async () => {
    const { rows } = await pool.query(
      `SELECT (SELECT to_jsonb(c) FROM read_model.checkpoint c) AS read_models,
              (SELECT to_jsonb(c) FROM webhooks.relay_checkpoint c) AS relay,
              (SELECT count(*) FROM read_model.appointment) AS appointments,
              (SELECT jsonb_agg(to_jsonb(d) ORDER BY d.delivery_id) FROM webhooks.delivery d) AS deliveries,
              (SELECT jsonb_agg(to_jsonb(p) ORDER BY p.delivery_id) FROM webhooks.pending_delivery p) AS pending,
              (SELECT count(*) FROM webhooks.attempt) AS attempts, (SELECT count(*) FROM webhooks.outbox) AS facts`,
    );
    const client = connectEventStore(stack.servers.eventstoreUrl, "test");
    const logEnd = await readLogEnd(client).finally(() => client.dispose());
    return { ...rows[0], end: logEnd, requests: receiver.requests.length };
  };
  const readDeliveryStatus = async (appointmentId: string) => {
    const { rows } = await pool.query("SELECT status FROM webhooks.delivery WHERE event_stream = $1", [
      `appointment-${appointmentId}`,
    ]);
    return rows[0]?.status;
  };
  const runProjection = (...args: string[]) => {
    const { eventstoreUrl, natsUrl, databaseUrls } = stack.servers;
    return runCli({ eventstoreUrl, natsUrl, databaseUrl: databaseUrls.projection }, args);
  };

  it("if the log is restored from an older copy, the projection stops until an operator runs `adopt`", async () => {
    const { eventstore } = stack.components;
    const dir = stack.servers.root.paths.eventstore;
    const backupDir = `${dir}.backup`;
    const keptAppointmentId = await createAppointment();
    await awaitWebhook(keptAppointmentId);
    receiver.setDefaultReaction({ status: 500 });
    const pendingAppointmentId = await createAppointment();
    await awaitAppointment(pendingAppointmentId);
    await awaitWebhook(pendingAppointmentId);
    await eventstore.stop();
    await cp(dir, backupDir, { recursive: true });
    await eventstore.start();
    await awaitReadiness();
    const lostAppointmentId = await createAppointment();
    await awaitAppointment(lostAppointmentId);
    await awaitWebhook(lostAppointmentId);

    await eventstore.stop();
    await rm(dir, { recursive: true });
    await cp(backupDir, dir, { recursive: true });
    const restoredAt = new Date().toISOString();
    await eventstore.start();
    const stoppedText = `stopped: ${DIFFERENT_LOG}`;
    await eventually(
      "all roles stop",
      async () => {
        const { status, parts } = await readHealth();
        return status === 503 && Object.values(parts).every((part) => part?.startsWith(stoppedText));
      },
      30_000,
    );
    const dataBefore = await readWrittenData();
    const [verifyResult, statusResult] = await Promise.all([runProjection("verify"), runProjection("status")]);
    expect(verifyResult.code).to.equal(2);
    expect(verifyResult.stderr).to.match(
      /^\nprojection: The event log is not the one that this database was built from: the read models stopped after event [0-9a-f-]{36} at position \d+, but the log ends at position \d+\. .* To continue with this log instead, run `clinic projection rebuild --adopt-log`\.\n$/,
    );
    expect(statusResult.stdout).to.match(/^The event log is not the one that this database was built from: /);
    expect(statusResult.stdout).to.match(/^ {2}process {6}\S+ stopped: the event log is not the one/m);
    expect((await runProjection("rebuild")).code).to.equal(2);
    // Nothing was written or sent while the commands ran.
    expect(await readWrittenData()).to.deep.equal(dataBefore);

    const earlyAppointmentId = await createAppointment();
    receiver.setDefaultReaction({});
    const rebuildResult = await runProjection("rebuild", "--adopt-log", "--tell-since", restoredAt);
    expect(rebuildResult.code, rebuildResult.stderr).to.equal(0);
    expect(rebuildResult.stdout).to.match(
      /^The relay continues after position \d+\. Webhooks for earlier events are not sent/m,
    );
    expect(rebuildResult.stdout).to.match(/^The log does not hold the events of 1 pending deliveries and /m);

    for (const id of [earlyAppointmentId, await createAppointment()]) {
      await awaitAppointment(id);
      await awaitWebhook(id);
    }
    await eventually("the retry", async () => (await readDeliveryStatus(pendingAppointmentId)) === "delivered", 30_000);
    expect(await listShownIds())
      .to.include.members([keptAppointmentId, pendingAppointmentId, earlyAppointmentId])
      .and.not.include(lostAppointmentId);
    expect(await readDeliveryStatus(lostAppointmentId)).to.equal("cancelled");
    expect(countWebhooks(keptAppointmentId)).to.equal(1);
    await awaitReadiness();
    expect((await runProjection("verify")).stdout).to.match(/: 0 differ$/m);
    const secondRebuildResult = await runProjection("rebuild", "--adopt-log");
    expect([secondRebuildResult.code, secondRebuildResult.stderr]).to.deep.equal([
      1,
      "\nprojection: This database was built from this event log, so there is nothing to adopt. Run rebuild without --adopt-log.\n",
    ]);
  });
});
