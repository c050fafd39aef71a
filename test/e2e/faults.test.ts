import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import type pg from "pg";
import { Webhook } from "standardwebhooks";
import { type Receiver, startReceiver } from "../../deploy/local/demo/receiver.ts";
import { withClient } from "../../deploy/local/servers/database-roles.ts";
import { SERVICE_NAMES } from "../../deploy/local/stack/environment.ts";
import type { LocalStack } from "../../deploy/local/stack/stack.ts";
import { createEventLog } from "../../shared/eventstore/log.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import { connectToLog } from "../support/connections.ts";
import { eventually } from "../support/eventually.ts";
import { resetConnections } from "../support/reset-connections.ts";
import { autoStop } from "../support/resources.ts";
import { startTestStack } from "../support/stack.ts";
import { type ApiResponse, createWorld, type World } from "./world.ts";

/** If true, the tests are skipped, because tests must not stop external servers. */
const hasExternalServers = ["EVENTSTORE_URL", "DATABASE_URL", "NATS_URL"].some((name) => process.env[name]);

/** Pause of each worker between two requests, so that the load leaves CPU time for the restarts. Milliseconds. */
const LOAD_PAUSE_MS = 100;

/** Time in which a create must succeed, with repetitions while a service restarts. Milliseconds. */
const CREATE_TIMEOUT_MS = 60_000;

/** Number of appointments that are created before a kill, and again after the restart. */
const LOAD_COUNT = 8;

/** Number of appointments that are created while a server is stopped. */
const OUTAGE_COUNT = 4;

(hasExternalServers ? describe.skip : describe)("faults", function () {
  this.timeout(240_000);
  let stack: LocalStack;
  let world: World;
  let receiver: Receiver;
  let endpoint: { id: string; secret: string };
  /** Ids of all appointments whose create request returned 201. */
  const createdIds = new Set<string>();
  /** Ids of the received deliveries, by appointment id. */
  const deliveryIds = new Map<string, Set<string>>();
  let receiveLoop: Promise<void>;
  let isOver = false;

  before(async () => {
    stack = await startTestStack({
      serviceEnv: {
        projection: {
          WEBHOOK_RETRY_SCHEDULE: "0.2,0.5,1,1,1,1",
          // The time limits determine the length of a lease, so with short limits the leases of a killed process expire
          // soon.
          WEBHOOK_CONNECT_TIMEOUT_MS: "500",
          WEBHOOK_TIMEOUT_MS: "500",
        },
      },
    });
    world = await createWorld(stack);
    receiver = await autoStop(startReceiver());
    const registrationResponse = await eventually("an endpoint can be registered", async () => {
      const response = await world.requestPartner("POST", "/webhook-endpoints", {
        body: { url: receiver.url, events: ["appointment.created"] },
      });
      return response.status === 201 && response;
    });
    endpoint = { id: registrationResponse.body.endpoint.id, secret: registrationResponse.body.secret };
    receiveLoop = receiveWebhooks();
  });

  after(async () => {
    isOver = true;
    await receiveLoop;
  });

  async function receiveWebhooks(): Promise<void> {
    while (!isOver) {
      const webhook = await receiver.waitForWebhook(100).catch(() => undefined);
      if (!webhook) continue;
      const body = new Webhook(endpoint.secret).verify(webhook.body, webhook.headers) as {
        data: { appointment: { id: string } };
      };
      const { id } = body.data.appointment;
      deliveryIds.set(id, (deliveryIds.get(id) ?? new Set()).add(webhook.headers["webhook-id"] as string));
    }
  }

  async function createAppointment(): Promise<ApiResponse> {
    const response = await world.createAppointment(`fault-${randomUUID()}`);
    if (response.status === 201) createdIds.add(response.body.appointment.id);
    return response;
  }

  /** Creates an appointment. @returns false if a service or a server was unavailable */
  async function tryCreate(key: string): Promise<boolean> {
    const response = await world.createAppointment(key).catch(() => undefined);
    if (response?.status === 201) createdIds.add(response.body.appointment.id);
    else if (response) expect(response.status).to.be.oneOf([502, 503]);
    return response?.status === 201;
  }

  /** Creates appointments until `stop` is called. Retries failed requests with the same idempotency key. */
  function createContinuously(workerCount = 4): { stop(): Promise<void> } {
    const stopController = new AbortController();
    const { signal } = stopController;
    const runWorker = async () => {
      while (!signal.aborted) {
        const key = `fault-${randomUUID()}`;
        const deadline = performance.now() + CREATE_TIMEOUT_MS;
        while (!(await tryCreate(key))) {
          expect(performance.now(), "a create succeeds in the end").to.be.below(deadline);
          await delay(LOAD_PAUSE_MS);
        }
        await pause(LOAD_PAUSE_MS, signal);
      }
    };
    const runningWorkers = Promise.all(Array.from({ length: workerCount }, runWorker));
    return {
      async stop() {
        stopController.abort();
        await runningWorkers;
      },
    };
  }

  /**
   * Waits until every created appointment is in the read model and its webhook has arrived. Checks that all webhooks of
   * an appointment have the same delivery id.
   */
  async function expectEverythingArrived(): Promise<void> {
    await eventually("every appointment shows in the read model", async () => {
      const rows = await query<{ appointment_id: string }>(
        `SELECT appointment_id FROM ${READ_MODEL_SCHEMA}.appointment`,
      );
      return [...createdIds].every((id) => rows.some((row) => row.appointment_id === id));
    });
    await eventually("every webhook arrived", () => [...createdIds].every((id) => deliveryIds.has(id)));
    for (const ids of deliveryIds.values()) expect(ids.size).to.equal(1);
    const duplicates = await query(
      "SELECT event_id FROM webhooks.delivery GROUP BY event_id, endpoint_id HAVING count(*) > 1",
    );
    expect(duplicates).to.deep.equal([]);
    await expectSingleEvents();
  }

  /** Checks that each of the last 20 created appointments has exactly one event. */
  async function expectSingleEvents(): Promise<void> {
    const client = connectToLog(stack.servers.eventstoreUrl);
    const log = createEventLog(client);
    for (const id of [...createdIds].slice(-20)) {
      const events = await log.read(`appointment-${id}`);
      expect(events.map(({ type }) => type)).to.deep.equal(["AppointmentRequested"]);
    }
  }

  const query = <Row extends pg.QueryResultRow>(text: string): Promise<Row[]> =>
    withClient(stack.servers.databaseUrls.projection, async (client) => (await client.query<Row>(text)).rows);

  it("without a fault, created appointments are projected and delivered", async () => {
    for (let count = 0; count < OUTAGE_COUNT; count += 1) expect((await createAppointment()).status).to.equal(201);
    await expectEverythingArrived();
    expect([...(await world.listPortalAppointments()).keys()]).to.include.members([...createdIds]);
  });

  it("clients that reset their connections at any step of a request end no process", async () => {
    const names = [...SERVICE_NAMES, "eventstore"] as const;
    const listPids = () => names.map((name) => stack.components[name].pid);
    const pids = listPids();
    const demoReceiver = await startReceiver();
    const logUrl = stack.servers.eventstoreUrl.replace(/^esdb/, "http");
    for (const url of [...Object.values(stack.urls), logUrl, demoReceiver.url]) await resetConnections(url);
    await demoReceiver.close();
    for (const name of SERVICE_NAMES) expect((await fetch(`${stack.urls[name]}/health/live`)).status).to.equal(200);
    expect((await createAppointment()).status).to.equal(201);
    expect(listPids()).to.deep.equal(pids);
  });

  it("while Postgres is stopped, create requests succeed and the portal returns 503; nothing is lost after the restart", async () => {
    await stack.components.postgres.stop();
    for (let count = 0; count < OUTAGE_COUNT; count += 1) expect((await createAppointment()).status).to.equal(201);
    const startedAt = performance.now();
    const portalResponse = await world.requestPortal("/appointments");
    expect(portalResponse.status).to.equal(503);
    // The portal does not wait for the restart of Postgres.
    expect(performance.now() - startedAt).to.be.below(10_000);
    expect(Number(portalResponse.headers.get("retry-after"))).to.be.greaterThan(0);
    expect(portalResponse.body).to.include({ ok: false, error: "data_source_unavailable" });
    await stack.components.postgres.start();
    await expectEverythingArrived();
    expect((await world.requestPortal("/clinic/context")).status).to.equal(200);
  });

  it("while NATS is stopped, create and read requests succeed, and webhooks arrive after the restart", async () => {
    await stack.components.nats.stop();
    for (let count = 0; count < OUTAGE_COUNT; count += 1) expect((await createAppointment()).status).to.equal(201);
    await eventually("the portal shows the appointments", async () => {
      const shownAppointments = await world.listPortalAppointments();
      return [...createdIds].every((id) => shownAppointments.has(id));
    });
    await stack.components.nats.start();
    await expectEverythingArrived();
  });

  it("while the event log is down, create requests get 503 and read requests succeed; all services reconnect afterwards", async () => {
    await stack.components.eventstore.kill();
    const refusedResponse = await createAppointment();
    expect(refusedResponse.status).to.equal(503);
    expect(Number(refusedResponse.headers.get("retry-after"))).to.be.greaterThan(0);
    expect(refusedResponse.body).to.include({ ok: false, error: "event_log_unavailable" });
    expect((await world.requestPortal("/appointments")).status).to.equal(200);
    await stack.components.eventstore.start();
    await eventually("a create succeeds again", async () => (await createAppointment()).status === 201);
    await expectEverythingArrived();
  });

  for (const name of ["projection", "command", "queryApi", "eventstore", "nats", "postgres"] as const)
    it(`if ${name} is killed under load, no event and no delivery is lost or duplicated`, async () => {
      const countBefore = createdIds.size;
      const createLoop = createContinuously();
      try {
        await eventually("creates succeed before the kill", () => createdIds.size >= countBefore + LOAD_COUNT);
        await stack.components[name].kill();
        await stack.components[name].start();
        const countAfter = createdIds.size;
        await eventually("creates succeed after the restart", () => createdIds.size >= countAfter + LOAD_COUNT);
      } finally {
        await createLoop.stop();
      }
      await expectEverythingArrived();
    });
});
