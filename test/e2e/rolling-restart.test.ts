import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { registerAuditor } from "../../command/operations/auditor-operations.ts";
import { buildServiceEnvironments, type Environments } from "../../deploy/local/stack/environment.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import { connectToLog } from "../support/connections.ts";
import { eventually } from "../support/eventually.ts";
import { type LoadBalancer, startLoadBalancer } from "../support/load-balancer.ts";
import { createDatabaseWithReadModels } from "../support/migrated-database.ts";
import { startOwnLog } from "../support/own-log.ts";
import { createTestOperatorContext } from "../support/partner.ts";
import { createPlainLog } from "../support/plain-log.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";
import { useResource } from "../support/resources.ts";
import { type ServiceEntryProcess, startServiceEntry } from "../support/service-entry.ts";
import { getTestServers, type TestDatabase } from "../support/stack.ts";
import { createWorld, type World } from "./world.ts";

/** Entry files of the services to restart. Only the projection service gets no requests. */
const SERVICES = {
  command: "command/main.ts",
  queryApi: "query-api/main.ts",
  audit: "command/audit/main.ts",
  projection: "projection/main.ts",
} as const;
type ServiceName = keyof typeof SERVICES;
const SERVICE_NAMES = Object.keys(SERVICES) as ServiceName[];

/** Maximum drain time. A process ends earlier if the load balancer stops sending requests to it. Milliseconds. */
const DRAIN_DELAY_MS = 60_000;

/** Number of appointments to create while both processes of a service run, and again after the former one has ended. */
const APPOINTMENT_COUNT = 15;

/** Pause of each worker between two requests, so that the load leaves CPU time for the restarts. Milliseconds. */
const LOAD_PAUSE_MS = 25;

describe("a rolling restart", function () {
  this.timeout(480_000);
  const ownLog = useResource(startOwnLog);
  let database: TestDatabase;
  let balancer: LoadBalancer;
  let env: Environments;
  let world: World;
  let receiver: Receiver;
  let auditCredential: string;
  const processes = new Map<ServiceName, ServiceEntryProcess[]>(SERVICE_NAMES.map((name) => [name, []]));

  before(async () => {
    const servers = { ...(await getTestServers()), eventstoreUrl: ownLog.eventstoreUrl };
    database = await createDatabaseWithReadModels();
    balancer = await startLoadBalancer();
    receiver = await startReceiver();
    const settings = { DRAIN_DELAY_MS: String(DRAIN_DELAY_MS) };
    env = buildServiceEnvironments({
      ports: { ...NO_PORTS, gateway: balancer.port },
      secrets: servers.root.secrets,
      servers: { ...servers, databaseUrls: database.urls },
      inheritedEnv: process.env,
      overrides: {
        command: settings,
        audit: settings,
        queryApi: { ...settings, TOKEN_JWKS_URL: `${balancer.url}/.well-known/jwks.json` },
      },
    });
    // The query API fetches the token keys when it starts.
    await start("command");
    await Promise.all(SERVICE_NAMES.filter((name) => name !== "command").map(start));
    world = await createWorld({ servers, urls: { gateway: balancer.url }, env });
    auditCredential = await createAuditor(servers.eventstoreUrl, world.clinicId);
    const endpoint = { url: receiver.url, events: ["appointment.created"] };
    await eventually("an endpoint is registered", async () => {
      const { status } = await world.requestPartner("POST", "/webhook-endpoints", { body: endpoint });
      return status === 201;
    });
    await eventually("the portal reads the clinic", async () => (await readAppointments()) === 200);
  });

  /** Starts a process of a service, and waits until it is ready. */
  async function start(name: ServiceName): Promise<void> {
    const service = await startServiceEntry(SERVICES[name], env[name]);
    processes.get(name)?.push(service);
    if (name !== "projection") return balancer.add(name, service.url);
    await eventually("the projection is ready", async () => (await fetch(`${service.url}/health/ready`)).ok);
  }

  /** Stops the former process of a service, and ends its drain when it gets no more requests. */
  async function stopFormer(name: ServiceName): Promise<void> {
    const service = processes.get(name)?.shift() as ServiceEntryProcess;
    const exitCode = await service.stop(async () => {
      if (name !== "projection") await balancer.awaitRemoval(service.url);
    });
    expect(exitCode, `exit code of ${name}`).to.equal(0);
  }

  const readAppointments = async () => (await world.requestPortal("/appointments?limit=5")).status;

  const readAuditedEvents = async () => {
    const response = await fetch(`${balancer.url}/audit/v1/events?clinic=${world.clinicId}&limit=5`, {
      headers: { Authorization: `Bearer ${auditCredential}` },
    });
    await response.text();
    return response.status;
  };

  it("a rolling restart of all services fails no request and loses or repeats no webhook", async () => {
    const stopController = new AbortController();
    const { signal } = stopController;
    const createdIds: string[] = [];
    const unexpectedStatuses: string[] = [];
    const repeat = async (label: string, expectedStatus: number, send: () => Promise<number>) => {
      while (!signal.aborted) {
        const status = await send().catch((error: Error) => error.message);
        if (status !== expectedStatus) unexpectedStatuses.push(`${label}: ${status}`);
        await pause(LOAD_PAUSE_MS, signal);
      }
    };
    const createTwice = async () => {
      const key = randomUUID();
      const [firstResponse, retryResponse] = [await world.createAppointment(key), await world.createAppointment(key)];
      if (firstResponse.status === 201) createdIds.push(firstResponse.body.appointment.id);
      if (retryResponse.status === 201)
        expect(retryResponse.body.appointment.id).to.equal(firstResponse.body.appointment.id);
      return Math.max(firstResponse.status, retryResponse.status);
    };
    const load = [
      repeat("create", 201, createTwice),
      repeat("create", 201, createTwice),
      repeat("portal read", 200, readAppointments),
      repeat("portal read", 200, readAppointments),
      repeat("audit read", 200, readAuditedEvents),
    ];
    const awaitAppointments = async () => {
      const count = createdIds.length + APPOINTMENT_COUNT;
      await eventually(`${count} appointments`, () => createdIds.length >= count, 200_000);
    };
    const receivedCount = (id: string) => receiver.requests.filter(({ body }) => body.includes(id)).length;

    await Promise.all(SERVICE_NAMES.map(start));
    await awaitAppointments();
    await Promise.all(SERVICE_NAMES.map(stopFormer));
    await awaitAppointments();
    stopController.abort();
    await Promise.all(load);

    expect(balancer.failures.join("\n")).to.equal("");
    expect(unexpectedStatuses.join("\n")).to.equal("");
    await eventually("every webhook arrives", () => createdIds.every((id) => receivedCount(id) > 0));
    const webhookIds = receiver.requests.map(({ headers }) => headers["webhook-id"]);
    expect(webhookIds, "webhooks with different ids").to.have.lengthOf(new Set(webhookIds).size);
    expect(webhookIds).to.have.lengthOf(createdIds.length);
  });
});

/** Ports of the environments. With 0, services choose free ports. */
const NO_PORTS = {
  command: 0,
  queryApi: 0,
  projection: 0,
  audit: 0,
  operations: 0,
  eventstore: 0,
  postgres: 0,
  nats: 0,
};

async function createAuditor(eventstoreUrl: string, clinicId: string): Promise<string> {
  const client = connectToLog(eventstoreUrl);
  const auditor = { auditorId: randomUUID(), name: "Auditor", clinicIds: [clinicId], expiresAt: null };
  const { credential } = await registerAuditor(createPlainLog(client), auditor, createTestOperatorContext());
  return credential;
}
