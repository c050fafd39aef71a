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
const external = ["EVENTSTORE_URL", "DATABASE_URL", "NATS_URL"].some((name) => process.env[name]);

(external ? describe.skip : describe)("a log that was restored from an older copy", function () {
  this.timeout(300_000);
  let stack: Stack;
  let world: World;
  let receiver: Receiver;
  let db: pg.Pool;

  before(async () => {
    const schedule = Array.from({ length: 20 }, () => "1").join(",");
    stack = await startTestStack({ serviceEnv: { projection: { WEBHOOK_RETRY_SCHEDULE: schedule } } });
    world = await createWorld(stack);
    receiver = await startReceiver();
    db = new pg.Pool({ connectionString: stack.servers.databaseUrls.projection });
    const body = { url: receiver.url, events: ["appointment.created"] };
    expect((await world.partner("POST", "/webhook-endpoints", { body })).status).to.equal(201);
  });

  after(async () => {
    await db?.end();
    await receiver?.close();
    await stack?.stop();
  });

  const create = async (): Promise<string> => {
    const answer = await eventually(
      "an appointment",
      async () => {
        const tried = await world.createAppointment(`log-${randomUUID()}`);
        return tried.status === 201 && tried;
      },
      30_000,
    );
    return answer.body.appointment.id;
  };
  const appointmentOf = (body: string): string => JSON.parse(body).data.appointment.id;
  const countReceived = (id: string) => receiver.requests.filter(({ body }) => appointmentOf(body) === id).length;
  const untilReceived = (id: string) => eventually("the webhook", () => countReceived(id) > 0, 30_000);
  const listShown = async () => [...(await world.portalAppointments()).keys()];
  const untilShown = (id: string) =>
    eventually("the appointment", async () => (await listShown()).includes(id), 30_000);
  const readHealth = async () => {
    const response = await fetch(`${stack.urls.projection}/health/ready`);
    return {
      status: response.status,
      parts: ((await response.json()) as { parts: Record<string, string | null> }).parts,
    };
  };
  const untilReady = () => eventually("ready", async () => (await readHealth()).status === 200, 30_000);
  /** Returns all data that the projection service writes, and the end of the log. */
  const readWrittenData = async () => {
    const { rows } = await db.query(
      `SELECT (SELECT to_jsonb(c) FROM read_model.checkpoint c) AS read_models,
              (SELECT to_jsonb(c) FROM webhooks.relay_checkpoint c) AS relay,
              (SELECT count(*) FROM read_model.appointment) AS appointments,
              (SELECT jsonb_agg(to_jsonb(d) ORDER BY d.delivery_id) FROM webhooks.delivery d) AS deliveries,
              (SELECT jsonb_agg(to_jsonb(p) ORDER BY p.delivery_id) FROM webhooks.pending_delivery p) AS pending,
              (SELECT count(*) FROM webhooks.attempt) AS attempts, (SELECT count(*) FROM webhooks.outbox) AS facts`,
    );
    const client = connectEventStore(stack.servers.eventstoreUrl, "test");
    const end = await readLogEnd(client).finally(() => client.dispose());
    return { ...rows[0], end, requests: receiver.requests.length };
  };
  const statusOf = async (appointmentId: string) => {
    const { rows } = await db.query("SELECT status FROM webhooks.delivery WHERE event_stream = $1", [
      `appointment-${appointmentId}`,
    ]);
    return rows[0]?.status;
  };
  const projection = (...args: string[]) => {
    const { eventstoreUrl, natsUrl, databaseUrls } = stack.servers;
    return runCli({ eventstoreUrl, natsUrl, databaseUrl: databaseUrls.projection }, args);
  };

  it("if the log is restored from an older copy, the projection stops until an operator runs `adopt`", async () => {
    const { eventstore } = stack.components;
    const dir = stack.servers.root.paths.eventstore;
    const backup = `${dir}.backup`;
    const kept = await create();
    await untilReceived(kept);
    receiver.setDefaultReaction({ status: 500 });
    const pending = await create();
    await untilShown(pending);
    await untilReceived(pending);
    await eventstore.stop();
    await cp(dir, backup, { recursive: true });
    await eventstore.start();
    await untilReady();
    const lost = await create();
    await untilShown(lost);
    await untilReceived(lost);

    await eventstore.stop();
    await rm(dir, { recursive: true });
    await cp(backup, dir, { recursive: true });
    const restoredAt = new Date().toISOString();
    await eventstore.start();
    const stopped = `stopped: ${DIFFERENT_LOG}`;
    await eventually(
      "all roles stop",
      async () => {
        const { status, parts } = await readHealth();
        return status === 503 && Object.values(parts).every((part) => part?.startsWith(stopped));
      },
      30_000,
    );
    const before = await readWrittenData();
    const [verified, status] = await Promise.all([projection("verify"), projection("status")]);
    expect(verified.code).to.equal(2);
    expect(verified.err).to.match(
      /^\nprojection: The event log is not the one that this database was built from: the read models stopped after event [0-9a-f-]{36} at position \d+, but the log ends at position \d+\. .* To continue with this log instead, run `npm run projection -- rebuild --adopt-log`\.\n$/,
    );
    expect(status.out).to.match(/^The event log is not the one that this database was built from: /);
    expect(status.out).to.match(/^ {2}process {6}\S+ stopped: the event log is not the one/m);
    expect((await projection("rebuild")).code).to.equal(2);
    // Nothing was written or sent while the commands ran.
    expect(await readWrittenData()).to.deep.equal(before);

    const meanwhile = await create();
    receiver.setDefaultReaction({});
    const adopted = await projection("rebuild", "--adopt-log", "--tell-since", restoredAt);
    expect(adopted.code, adopted.err).to.equal(0);
    expect(adopted.out).to.match(/^The relay continues after position \d+\. Webhooks for earlier events are not sent/m);
    expect(adopted.out).to.match(/^The log does not hold the events of 1 pending deliveries and /m);

    for (const id of [meanwhile, await create()]) {
      await untilShown(id);
      await untilReceived(id);
    }
    await eventually("the retry", async () => (await statusOf(pending)) === "delivered", 30_000);
    expect(await listShown())
      .to.include.members([kept, pending, meanwhile])
      .and.not.include(lost);
    expect(await statusOf(lost)).to.equal("cancelled");
    expect(countReceived(kept)).to.equal(1);
    await untilReady();
    expect((await projection("verify")).out).to.match(/: 0 differ$/m);
    const again = await projection("rebuild", "--adopt-log");
    expect([again.code, again.err]).to.deep.equal([
      1,
      "\nprojection: This database was built from this event log, so there is nothing to adopt. Run rebuild without --adopt-log.\n",
    ]);
  });
});
