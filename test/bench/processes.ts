/**
 * Measures the CPU time of each component for appointment creates with one webhook each, and for partner reads. The
 * command service, the query API and the webhooks role each run in one process, and then in two.
 *
 *     npm run bench -- processes
 *
 * If the CPU time per item stays the same, a second process doubles the capacity of a service, until another component
 * is the bottleneck. Rates are not compared, because all processes share the machine's cores.
 */

import { randomUUID } from "node:crypto";
import { connectToLog } from "../support/connections.ts";
import { eventually } from "../support/eventually.ts";
import { createPartnerWorld, type PartnerWorld } from "../support/partner.ts";
import { createPlainLog } from "../support/plain-log.ts";
import { type ServiceEntryProcess, startServiceEntry } from "../support/service-entry.ts";
import { mochaGlobalTeardown, startTestStack } from "../support/stack.ts";
import { measureWork } from "./load.ts";
import { printRow } from "./report.ts";
import { runConcurrently } from "./signed-posts.ts";
import { startWebhookSink } from "./webhook-sink-process.ts";

const CONNECTION_COUNT = 16;
const CREATE_COUNT = 4_000;
const READ_COUNT = 8_000;

const receivedDeliveryIds = new Set<string>();
const sink = await startWebhookSink(([deliveryId]) => receivedDeliveryIds.add(deliveryId));
const stack = await startTestStack({ serviceEnv: { projection: { ROLES: "projectors,relay" } } });
const { eventstore, postgres, nats, projection, command, queryApi } = stack.components;
const moreProcesses: ServiceEntryProcess[] = [];
try {
  const startProcess = async (entryFile: string, env: NodeJS.ProcessEnv) => {
    const service = await startServiceEntry(entryFile, { ...process.env, ...env, PORT: "0" });
    moreProcesses.push(service);
    return service;
  };
  const webhooksEnv = { ...stack.env.projection, ROLES: "webhooks" };
  const webhooks = [await startProcess("projection/main.ts", webhooksEnv)];
  const commands = [{ url: stack.urls.command, pid: command.pid }];
  const queryApis = [{ url: stack.urls.queryApi, pid: queryApi.pid }];
  const listPids = () => {
    const groups = { command: commands, "query-api": queryApis, "projectors, relay": [projection], webhooks };
    const servers = { "event log": [eventstore], postgres: [postgres], nats: [nats] };
    const entries = Object.entries({ ...groups, ...servers });
    return Object.fromEntries(entries.map(([name, group]) => [name, group.flatMap(({ pid }) => pid ?? [])]));
  };
  const measure = async (name: string, count: number, runWorkload: () => Promise<unknown>) => {
    const use = await measureWork(listPids(), async () => {
      await runWorkload();
      return count;
    });
    printRow({ name, ...use });
  };

  const log = createPlainLog(connectToLog(stack.servers.eventstoreUrl));
  const world = await createPartnerWorld({ url: stack.urls.command, log }, "sandbox", { rateLimitPerMinute: 100_000 });
  await registerEndpoint(world);
  const create = async (n: number) => {
    const { branchId, animalId } = world;
    const url = `${commands[n % commands.length]?.url}/sandbox/v1/appointments`;
    const headers = { ...world.headers, "Content-Type": "application/json", "Idempotency-Key": randomUUID() };
    const body = JSON.stringify({ branchId, animalId, scheduledAt: "2099-05-04T10:00:00Z", notes: "Vaccination" });
    await expectStatus(201, await fetch(url, { method: "POST", headers, body }));
  };
  const read = async (n: number) => {
    const url = `${queryApis[n % queryApis.length]?.url}/sandbox/v1/appointments?limit=50&from=2099-05-01T00:00:00Z&to=2099-05-06T00:00:00Z`;
    await expectStatus(200, await fetch(url, { headers: world.headers }));
  };
  const createAll = async (count = CREATE_COUNT) => {
    receivedDeliveryIds.clear();
    await runConcurrently(CONNECTION_COUNT, count, create);
    await eventually("all webhooks", () => receivedDeliveryIds.size >= count, 300_000);
  };
  const readAll = (count = READ_COUNT) => runConcurrently(CONNECTION_COUNT, count, read);
  const measureCreates = (name: string) => measure(`creates with webhooks, ${name}`, CREATE_COUNT, createAll);
  const measureReads = (name: string) => measure(`partner reads of 50 appointments, ${name}`, READ_COUNT, readAll);

  await createAll(CREATE_COUNT / 2);
  await eventually("a read", async () => (await fetch(`${stack.urls.queryApi}/health/ready`)).ok);
  await readAll(READ_COUNT / 4);
  await measureCreates("one process");
  await measureReads("one process");
  queryApis.push(await startProcess("query-api/main.ts", stack.env.queryApi));
  await readAll(READ_COUNT / 4);
  await measureReads("two of query-api");
  webhooks.push(await startProcess("projection/main.ts", webhooksEnv));
  await createAll(CREATE_COUNT / 2);
  await measureCreates("two dispatchers");
  commands.push(await startProcess("command/main.ts", stack.env.command));
  await createAll(CREATE_COUNT / 2);
  await measureCreates("two dispatchers, two of command");
} finally {
  await Promise.all(moreProcesses.map((service) => service.stop()));
  sink.stop();
  await mochaGlobalTeardown();
}

async function registerEndpoint({ headers }: PartnerWorld): Promise<void> {
  const response = await fetch(`${stack.urls.command}/sandbox/v1/webhook-endpoints`, {
    method: "POST",
    headers: { ...headers, "Content-Type": "application/json" },
    body: JSON.stringify({ url: `${sink.url}/`, events: ["appointment.created"] }),
  });
  await expectStatus(201, response);
}

async function expectStatus(status: number, response: Response): Promise<void> {
  const text = await response.text();
  if (response.status !== status) throw new Error(`status ${response.status}: ${text}`);
}
