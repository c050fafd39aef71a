import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { expect } from "chai";
import { withDeathSignal } from "../../../deploy/local/setup/processes.mjs";
import { buildNodeCommand } from "../../../deploy/local/setup/project.ts";
import { deriveWebhookDeliveryId } from "../../../shared/webhooks/delivery-id.ts";
import { eventually } from "../../support/eventually.ts";
import { startReceiver } from "../../support/receiver.ts";
import { useResource } from "../../support/resources.ts";
import { type KillingStep, killingSteps } from "./killed-at.ts";
import { createWorld, type Endpoint } from "./world.ts";

interface ChildOptions {
  timeoutMs: number;
  retryScheduleSeconds?: number[];
  /** Step at which the process sends `signal` to itself; default: never. */
  step?: KillingStep;
  /** Default: SIGKILL. */
  signal?: NodeJS.Signals;
}

const CHILD_SCRIPT = "test/projection/webhooks/webhooks-process.ts";

/** The tests count rows by clinic, because an external event log may contain events of other tests. */
describe("webhooks in several processes", () => {
  const world = useResource(createWorld, "test");
  const receiver = useResource(startReceiver, "test");
  const goneReceiver = useResource(startReceiver, "test");
  const children: ChildProcess[] = [];

  beforeEach(async () => {
    world.start.projectors();
  });
  afterEach(async () => {
    for (const child of children.splice(0)) child.kill("SIGKILL");
  });

  /** Starts a process and waits until it has loaded its code. The process starts the role only after input. */
  const loadChild = async (options: ChildOptions) => {
    const { eventstoreUrl, databaseUrl, natsUrl } = world;
    const settings = { eventstoreUrl, databaseUrl, natsUrl, retryScheduleSeconds: [0.2, 0.2, 0.2], ...options };
    const env = { ...process.env, WORLD: JSON.stringify(settings) };
    const nodeCommand = buildNodeCommand(CHILD_SCRIPT);
    const [command, args] = withDeathSignal("SIGKILL", nodeCommand.command, nodeCommand.args);
    const child = spawn(command, args, { env, stdio: ["pipe", "pipe", "inherit"] });
    children.push(child);
    await once(child.stdout, "data");
    return child;
  };
  const startChild = async (childPromise: ReturnType<typeof loadChild>) => {
    const child = await childPromise;
    child.stdin.write("go");
    await once(child.stdout, "data");
    return child;
  };
  const listSuccessfulRequests = () => receiver.requests.filter(({ status }) => status === 200);

  it("two relay roles and two webhooks roles deliver every event exactly once", async () => {
    world.start.relay();
    world.start.relay();
    // On a busy machine, a response can take long. A timeout would cause another attempt.
    world.start.webhooks({ timeoutMs: 60_000, connectTimeoutMs: 60_000 });
    world.start.webhooks({ timeoutMs: 60_000, connectTimeoutMs: 60_000 });
    const endpoints = await Promise.all(Array.from({ length: 6 }, () => world.registerEndpoint(receiver.url)));
    receiver.queueReactions(...Array(20).fill({ status: 500 }));
    for (let round = 0; round < 25; round += 1)
      await Promise.all(endpoints.map(({ clinicId }) => world.requestAppointment(clinicId)));
    await eventually("150 deliveries", () => listSuccessfulRequests().length >= 150);
    await eventually("170 recorded attempts", async () => {
      const { rows } = await world.pool.query<{ status: string; deliveries: number; attempts: number }>(
        `SELECT status, count(*)::integer AS deliveries,
                sum((SELECT count(*) FROM webhooks.attempt a WHERE a.delivery_id = d.delivery_id))::integer AS attempts
           FROM webhooks.delivery d WHERE clinic_id = ANY ($1::uuid[]) GROUP BY status`,
        [endpoints.map(({ clinicId }) => clinicId)],
      );
      return rows.length === 1 && rows[0]?.status === "delivered" && rows[0].attempts === 170;
    });
    expect(new Set(listSuccessfulRequests().map(({ headers }) => headers["webhook-id"])).size).to.equal(150);
    expect(receiver.requests).to.have.length(170);
  });

  it("one endpoint gets more than four concurrent attempts while its receiver answers quickly", async () => {
    world.start.relay();
    world.start.webhooks();
    receiver.setDefaultReaction({ delayMs: 20 });
    const { clinicId } = await world.registerEndpoint(receiver.url);
    await Promise.all(Array.from({ length: 60 }, () => world.requestAppointment(clinicId)));
    await eventually("60 deliveries", () => listSuccessfulRequests().length >= 60);
    expect(receiver.getMaxConcurrentRequests()).to.be.within(5, 48);
  });

  it("after a process is killed during an attempt, another process repeats the attempt before the lease expires", async () => {
    world.start.relay();
    const child = await startChild(loadChild({ timeoutMs: 300_000 }));
    const endpoint = await world.registerEndpoint(receiver.url);
    receiver.queueReactions({ mode: "hang" });
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await eventually("the first attempt", () => receiver.requests.length === 1);
    child.kill("SIGKILL");
    world.start.webhooks();
    const { attempts } = await world.awaitStatus(eventId, endpoint, "delivered");
    expect(attempts.map(({ number, duration_ms, status_code }) => [number, duration_ms, status_code])).to.deep.include([
      ...[1, null, null],
    ]);
    expect(attempts).to.have.length(2);
    expect(receiver.requests).to.have.length(2);
  });

  it("a process that is frozen in a transaction does not stop the webhooks of other endpoints", async () => {
    world.start.relay();
    await startChild(loadChild({ timeoutMs: 1_000, step: "blocked | released", signal: "SIGSTOP" }));
    const orderedEndpoint = await world.registerEndpoint(receiver.url, { ordering: "appointment" });
    const endpoint = await world.registerEndpoint(receiver.url);
    const { eventId, appointmentId } = await world.requestAppointment(orderedEndpoint.clinicId);
    await eventually("the frozen transaction", async () => {
      const { rows } = await world.pool.query(
        `SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'child'
            AND state = 'idle in transaction' AND clock_timestamp() - state_change > interval '1 second'`,
      );
      return rows.length > 0;
    });
    world.start.webhooks();
    const laterId = await world.changeAppointment(appointmentId, "AppointmentConfirmed");
    const { eventId: otherId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(otherId, endpoint, "delivered");
    for (const id of [eventId, laterId]) await world.awaitStatus(id, orderedEndpoint, "delivered");
  });

  it("webhooks processes that are killed and replaced several times lose no delivery", async function () {
    this.timeout(150_000);
    world.start.relay();
    const endpoints = await Promise.all(Array.from({ length: 4 }, () => world.registerEndpoint(receiver.url)));
    const eventIds: string[] = [];
    let childPromise = loadChild({ timeoutMs: 300 });
    for (let round = 0; round < 4; round += 1) {
      const child = await startChild(childPromise);
      if (round < 3) childPromise = loadChild({ timeoutMs: 300 });
      for (let i = 0; i < 5; i += 1) {
        const appointments = await Promise.all(endpoints.map(({ clinicId }) => world.requestAppointment(clinicId)));
        eventIds.push(...appointments.map(({ eventId }) => eventId));
      }
      child.kill("SIGKILL");
    }
    world.start.webhooks();
    await eventually("all delivered", async () => {
      const { rows } = await world.pool.query<{ count: number }>(
        "SELECT count(*)::integer AS count FROM webhooks.delivery WHERE status = 'delivered' AND clinic_id = ANY ($1::uuid[])",
        [endpoints.map(({ clinicId }) => clinicId)],
      );
      return rows[0]?.count === eventIds.length;
    });
    // A webhook may arrive twice only if the success of one attempt was not recorded.
    const { rows } = await world.pool.query<{ unfinished: number }>(
      "SELECT count(*)::integer AS unfinished FROM webhooks.attempt WHERE duration_ms IS NULL OR error IS NOT NULL",
    );
    const webhookIds = new Set(listSuccessfulRequests().map(({ headers }) => headers["webhook-id"]));
    expect(webhookIds.size).to.equal(eventIds.length);
    expect(listSuccessfulRequests().length - webhookIds.size).to.be.at.most(rows[0]!.unfinished);
  });

  it("two dispatchers keep the order of each appointment's events, although attempts fail and one process is killed", async function () {
    this.timeout(150_000);
    world.start.relay();
    const endpoint = await world.registerEndpoint(receiver.url, { ordering: "appointment" });
    // Each delivery fails up to twice before it succeeds.
    const attemptCounts = new Map<unknown, number>();
    receiver.chooseReactions(({ headers: { "webhook-id": deliveryId } }) => {
      const attemptCount = (attemptCounts.get(deliveryId) ?? 0) + 1;
      attemptCounts.set(deliveryId, attemptCount);
      const failureCount = Number.parseInt(String(deliveryId).slice(-2), 16) % 3;
      return { status: attemptCount <= failureCount ? 500 : 200 };
    });
    const options = { timeoutMs: 1_000, retryScheduleSeconds: Array(20).fill(0.05) };
    const child = await startChild(loadChild(options));
    world.start.webhooks(options);
    const appointments = await Promise.all(
      Array.from({ length: 8 }, () => world.requestAppointment(endpoint.clinicId)),
    );
    for (const durationMinutes of [10, 20, 30]) {
      const schedule = { scheduledAt: "2030-05-01T10:00:00.000Z", durationMinutes, reason: null };
      await Promise.all(
        appointments.map(({ appointmentId }) =>
          world.changeAppointment(appointmentId, "AppointmentRescheduled", schedule),
        ),
      );
    }
    await eventually("some deliveries", () => listSuccessfulRequests().length >= 5);
    child.kill("SIGKILL");
    world.start.webhooks(options);
    const listAccepted = () =>
      new Map(listSuccessfulRequests().map(({ headers, body }) => [headers["webhook-id"], JSON.parse(body)]));
    await eventually("32 deliveries", () => listAccepted().size === 32);
    for (const { appointmentId } of appointments) {
      const acceptedAppointments = [...listAccepted().values()].map(({ data: { appointment } }) => appointment);
      const revisions = acceptedAppointments.filter(({ id }) => id === appointmentId).map(({ revision }) => revision);
      expect(revisions).to.deep.equal([0, 1, 2, 3]);
    }
  });

  it("a webhooks process that is killed between two steps neither loses nor duplicates a delivery", async function () {
    this.timeout(300_000);
    world.start.relay();
    goneReceiver.setDefaultReaction({ status: 410 });
    const cases: { eventId: string; nextEventId: string; endpoint: Endpoint; step: KillingStep }[] = [];
    // Loading the code takes longest, so the next two processes load it while the current process works.
    const loadAtStep = (step: KillingStep) => loadChild({ timeoutMs: 300, step });
    const childPromises = killingSteps.slice(0, 2).map(loadAtStep);
    for (const [index, step] of killingSteps.entries()) {
      const child = (await childPromises[index])!;
      const nextStep = killingSteps[index + 2];
      if (nextStep) childPromises.push(loadAtStep(nextStep));
      // One statement records a success, so only the transaction that records a failure can be interrupted between
      // statements.
      if (step === "record | commit") receiver.queueReactions({ status: 500 });
      const { url } = step.startsWith("event") ? goneReceiver : receiver;
      const endpoint = await world.registerEndpoint(url, { ordering: "appointment" });
      const { appointmentId, eventId } = await world.requestAppointment(endpoint.clinicId);
      const nextEventId = await world.changeAppointment(appointmentId, "AppointmentConfirmed");
      cases.push({ eventId, nextEventId, endpoint, step });
      const exitPromise = once(child, "exit");
      child.stdin.write("go");
      expect(await exitPromise, step).to.deep.equal([null, "SIGKILL"]);
    }
    world.start.webhooks({ timeoutMs: 300 });
    for (const { eventId, nextEventId, endpoint, step } of cases) {
      const isGone = step.startsWith("event");
      const { attempts } = await world.awaitStatus(eventId, endpoint, isGone ? "failed" : "delivered");
      await world.awaitStatus(nextEventId, endpoint, isGone ? "skipped" : "delivered");
      const deliveryId = deriveWebhookDeliveryId(eventId, endpoint.endpointId);
      const requests = [...receiver.listDeliveryRequests(deliveryId), ...goneReceiver.listDeliveryRequests(deliveryId)];
      const unknownAttempts = attempts.filter(({ duration_ms }) => duration_ms === null);
      // Every request has a recorded attempt, either with its response or with an unknown outcome.
      expect(requests.length, step).to.be.within(1, attempts.length);
      expect(requests.length - unknownAttempts.length, step).to.be.at.most(attempts.length - unknownAttempts.length);
      if (!isGone) continue;
      await eventually("no unrecorded event", async () => {
        return (await world.pool.query("SELECT FROM webhooks.failing_endpoint")).rowCount === 0;
      });
      const types = await world.listEventTypes(`webhookEndpoint-${endpoint.endpointId}`);
      expect(types.filter((type) => type === "WebhookEndpointDisabled")).to.have.length(1);
    }
  });

  it("a webhooks role finishes short attempts before stopping, and another process repeats an interrupted attempt", async () => {
    world.start.relay();
    const webhooksRole = world.start.webhooks({ timeoutMs: 60_000 });
    const endpoint = await world.registerEndpoint(receiver.url);
    receiver.queueReactions({ delayMs: 500 }, { mode: "hang" });
    const { eventId: slowEventId } = await world.requestAppointment(endpoint.clinicId);
    await eventually("the first attempt", () => receiver.requests.length === 1);
    const { eventId: hangingEventId } = await world.requestAppointment(endpoint.clinicId);
    await eventually("the second attempt", () => receiver.requests.length === 2);
    await world.stopRoles(webhooksRole);
    expect((await world.readDelivery(slowEventId, endpoint))?.status).to.equal("delivered");
    // The second attempt was interrupted, so its outcome is unknown and its lease was released.
    const leasedDelivery = await world.readDelivery(hangingEventId, endpoint);
    expect(leasedDelivery).to.deep.include({ status: "pending", attempt_count: 1 });
    expect(leasedDelivery!.attempts.map(({ duration_ms }) => duration_ms)).to.deep.equal([null]);
    const { rowCount } = await world.pool.query(
      "SELECT FROM webhooks.pending_delivery WHERE endpoint_id = $1 AND lease_expires_at > now()",
      [endpoint.endpointId],
    );
    expect(rowCount).to.equal(0);
    world.start.webhooks();
    const { attempts } = await world.awaitStatus(hangingEventId, endpoint, "delivered");
    expect(attempts.map(({ status_code }) => status_code)).to.deep.equal([null, 200]);
  });
});
