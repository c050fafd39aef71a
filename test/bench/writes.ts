/**
 * Measures partner writes per second on a complete stack: creates of appointments with new and with repeated
 * idempotency keys, requests over the rate limit, and token exchanges.
 *
 *     npm run bench -- writes
 */

import { randomBytes, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { generateKeyPair, SignJWT } from "jose";
import Koa from "koa";
import { appendEvents } from "../../shared/eventstore/append.ts";
import { EMPTY_STREAM, REQUEST_TIMEOUT_MS } from "../../shared/eventstore/log.ts";
import { connectToLog } from "../support/connections.ts";
import { listenOnLoopback } from "../support/loopback.ts";
import { createPartnerWorld, type PartnerWorld } from "../support/partner.ts";
import { createPlainLog } from "../support/plain-log.ts";
import { mochaGlobalTeardown, startTestStack } from "../support/stack.ts";
import { type LoadRequest, type LoadResult, listPids, measureLoad, measureRate } from "./load.ts";
import { printLoad, printRow } from "./report.ts";

const CONNECTION_COUNT = 64;
const HIGHEST_RATE_LIMIT = 100_000;

/**
 * Duration of the load before the first measurement. Milliseconds. V8 optimizes a service's code only after thousands
 * of calls. In the first seconds, a create takes up to twice as long.
 */
const SERVICE_WARM_UP_MS = 20_000;

/** Pause before each request, and duration of the measurement on an idle machine. Milliseconds. */
const [IDLE_PAUSE_MS, IDLE_MEASURED_MS] = [40, 10_000];

const REPEATED_KEY_COUNT = 200;

// With the addresses of a proxy, token exchanges come from more callers than one rate limit permits.
const stack = await startTestStack({ serviceEnv: { command: { TRUST_PROXY: "true" } } });
const client = connectToLog(stack.servers.eventstoreUrl);
const url = stack.urls.command;
const { command, eventstore, projection, postgres, nats } = stack.components;
const pids = listPids({ command, eventstore, projection, postgres, nats });
try {
  const log = createPlainLog(client);
  const world = await createPartnerWorld({ url, log }, "production", { rateLimitPerMinute: HIGHEST_RATE_LIMIT });
  const createNewRequest = () => createRequest(world, randomUUID());
  await measureLoad({
    origin: url,
    createNextRequest: createNewRequest,
    status: 201,
    pids,
    connectionCount: CONNECTION_COUNT,
    warmUpMs: SERVICE_WARM_UP_MS,
  });
  // Before the next measurement, whose many appends keep the event log busy for some time afterwards.
  await compareOnIdleMachine(client, createNewRequest);
  await compareWithAppends(client, "64 concurrent creates", CONNECTION_COUNT, createNewRequest);
  const keys = Array.from({ length: REPEATED_KEY_COUNT }, () => randomUUID());
  let sentCount = 0;
  await compareWithAppends(client, "64 concurrent repeated creates", CONNECTION_COUNT, () =>
    createRequest(world, keys[sentCount++ % keys.length] as string),
  );
  await measureRefusals(await createPartnerWorld({ url, log }, "production", { rateLimitPerMinute: 1 }));
  await measureTokens(world);
} finally {
  await mochaGlobalTeardown();
}

function createRequest({ branchId, animalId, headers }: PartnerWorld, key: string): LoadRequest {
  const scheduledAt = "2099-05-04T10:00:00Z";
  return {
    method: "POST",
    path: "/production/v1/appointments",
    headers: { ...headers, "Content-Type": "application/json", "Idempotency-Key": key },
    body: JSON.stringify({ branchId, animalId, scheduledAt, notes: "Vaccination" }),
  };
}

/** Compares creates with plain appends of events of the same size, with equal concurrency. */
async function compareWithAppends(
  client: EventStoreDBClient,
  name: string,
  connectionCount: number,
  createNextRequest: () => LoadRequest,
): Promise<void> {
  const measureAppends = () => measureRate({ runTask: () => append(client), concurrency: connectionCount, pids });
  const appendLoadBefore = await measureAppends();
  const requestLoad = await measureLoad({ origin: url, createNextRequest, status: 201, pids, connectionCount });
  printLoad(name, requestLoad, appendLoadBefore, await measureAppends());
}

/** Compares the latency of single creates and single appends, each after a pause in which the machine is idle. */
async function compareOnIdleMachine(client: EventStoreDBClient, createNextRequest: () => LoadRequest): Promise<void> {
  const options = { pids, pauseMs: IDLE_PAUSE_MS, measuredMs: IDLE_MEASURED_MS };
  const measureAppends = () => measureRate({ ...options, runTask: () => append(client), concurrency: 1 });
  const appendLoadBefore = await measureAppends();
  const requestOptions = { ...options, origin: url, createNextRequest, status: 201, connectionCount: 1 };
  const { p50, p99, cpuMicros } = await measureLoad(requestOptions);
  const appendP50 = (appendLoadBefore.p50 + (await measureAppends()).p50) / 2;
  const note = `p50 of an append ${appendP50.toFixed(1)} ms, p50 of a create ${(p50 / appendP50).toFixed(1)} times that`;
  printRow({ name: "creates on an idle machine", p50, p99, cpuMicros, note });
}

/** Appends an event of about the size of an appointment to a new stream, with the call that the services use. */
async function append(client: EventStoreDBClient): Promise<void> {
  const data = Buffer.from(JSON.stringify({ text: "x".repeat(500) }));
  const event = {
    id: randomUUID(),
    type: "Benchmark",
    contentType: "application/json",
    data,
    metadata: data.subarray(0, 0),
  };
  await appendEvents(client, `bench-${randomUUID()}`, EMPTY_STREAM, [event], REQUEST_TIMEOUT_MS);
}

/** Compares requests over the rate limit with a minimal Koa application that always responds with 429. */
async function measureRefusals(world: PartnerWorld): Promise<void> {
  const createNextRequest = () => createRequest(world, "12345678");
  await fetch(`${url}${createNextRequest().path}`, { ...createNextRequest(), body: createNextRequest().body ?? null });
  const app = new Koa().use((ctx) => {
    ctx.status = 429;
    ctx.body = { ok: false, error: "rate_limit_exceeded", correlationId: world.clinicId };
  });
  const { host } = await listenOnLoopback(createServer(app.callback()));
  const measureRefusedLoad = (origin: string) =>
    measureLoad({ origin, createNextRequest, status: 429, pids, connectionCount: CONNECTION_COUNT });
  printLoad("429 responses", await measureRefusedLoad(url), await measureRefusedLoad(`http://${host}`));
}

/** Compares token exchanges with signatures of tokens. */
async function measureTokens({ applicationId, clientSecret, environment }: PartnerWorld): Promise<void> {
  const { privateKey } = await generateKeyPair("EdDSA");
  const sign = () => new SignJWT({ client_id: applicationId }).setProtectedHeader({ alg: "EdDSA" }).sign(privateKey);
  const credentials = { client_id: applicationId, client_secret: clientSecret, environment };
  const createNextRequest = (): LoadRequest => ({
    method: "POST",
    path: `/${environment}/v1/oauth/token`,
    headers: { "Content-Type": "application/json", "X-Forwarded-For": `10.1.${randomBytes(2).join(".")}` },
    body: JSON.stringify({ ...credentials, grant_type: "client_credentials" }),
  });
  const measureTokenLoad = (connections: number): Promise<LoadResult> =>
    measureLoad({ origin: url, createNextRequest, pids, connectionCount: connections });
  const signingLoad = await measureRate({ runTask: sign, concurrency: 8, pids });
  printLoad("64 concurrent token exchanges", await measureTokenLoad(CONNECTION_COUNT), signingLoad);
  printLoad("single token exchanges", await measureTokenLoad(1), signingLoad);
}
