/**
 * Writes of partners per second, on a complete stack: appointments with new keys and with a repeated key, refused
 * requests, and token exchanges.
 *
 *     node --import tsx test/bench/writes.ts
 */
import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { jsonEvent } from "@eventstore/db-client";
import { generateKeyPair, SignJWT } from "jose";
import Koa from "koa";
import { connectEventStore } from "../../shared/eventstore/connect.ts";
import { createEventLog } from "../../shared/eventstore/log.ts";
import { createApplication, createClinic, exchange, install } from "../support/partner.ts";
import { mochaGlobalTeardown, startTestStack } from "../support/stack.ts";
import { type LoadRequest, type LoadResult, measureLoad, measureRate } from "./load.ts";

const CONNECTIONS = 64;

const stack = await startTestStack({
  serviceEnv: {
    command: { TRUST_PROXY: "true" },
  },
});
const client = connectEventStore(stack.servers.eventstoreUrl, "bench");
const log = createEventLog(client);
try {
  const origin = stack.urls.command;
  const { command, eventstore, projection, postgres, nats } = stack.components;
  const pids = Object.fromEntries(
    Object.entries({ command, eventstore, projection, postgres, nats }).map(([name, { pid }]) => [
      name,
      pid === undefined ? [] : [pid],
    ]),
  );
  const clinic = await createClinic(log);
  const application = await createApplication(log);
  await install(log, application, clinic, { rateLimitPerMinute: 100_000 });
  const { body } = await exchange(origin, application);
  const headers = {
    authorization: `Bearer ${body.access_token}`,
    "x-service-clinic-id": clinic.clinicId,
    "content-type": "application/json",
  };
  const { branchId, animalId } = clinic;
  const scheduledAt = new Date(Date.now() + 3 * 86_400_000).toISOString();
  const appointment = JSON.stringify({ branchId, animalId, scheduledAt, notes: "Vaccination" });
  const create = (key: string): LoadRequest => ({
    method: "POST",
    path: "/production/v1/appointments",
    headers: { ...headers, "idempotency-key": key },
    body: appointment,
  });
  const load = (next: () => LoadRequest, status: number, connections = CONNECTIONS) =>
    measureLoad({ origin, next, status, pids, connections });
  const append = (concurrency: number) =>
    measureRate({
      work: () =>
        client.appendToStream(
          `bench-${randomUUID()}`,
          jsonEvent({ type: "Benchmark", data: { text: appointment.repeat(2) } }),
        ),
      concurrency,
      pids,
    });
  console.log("part | ours/s | reference/s | ratio | p50 | p99 | CPU µs");
  const print = (part: string, ours: LoadResult, ...references: LoadResult[]) => {
    const reference = references.reduce((sum, { perSecond }) => sum + perSecond, 0) / references.length;
    const cpu = Object.entries(ours.cpu).map(([name, micros]) => `${name} ${micros.toFixed(0)}`);
    console.log(
      [
        part,
        ours.perSecond.toFixed(0),
        reference.toFixed(0),
        (ours.perSecond / reference).toFixed(3),
        ours.p50.toFixed(1),
        ours.p99.toFixed(1),
        cpu.join(" "),
      ].join(" | "),
    );
  };
  const parts = process.argv.slice(2);
  const wants = (part: string) => parts.length === 0 || parts.includes(part);
  if (wants("creates")) {
    const before = await append(CONNECTIONS);
    print("append", before, before);
    const creates = await load(() => create(randomUUID()), 201);
    print("creates", creates, before, await append(CONNECTIONS));
    const idle = await load(() => create(randomUUID()), 201, 1);
    print("one create", idle, await append(1));
  }
  if (wants("repeats")) {
    const keys = Array.from({ length: 200 }, () => randomUUID());
    let n = 0;
    const before = await append(CONNECTIONS);
    print(
      "repeats",
      await load(() => create(keys[n++ % keys.length] as string), 201),
      before,
      await append(CONNECTIONS),
    );
  }
  if (wants("refusals")) {
    const limited = await createApplication(log);
    await install(log, limited, clinic, { rateLimitPerMinute: 1 });
    const token = (await exchange(origin, limited)).body.access_token;
    const next = () => ({
      ...create("12345678"),
      headers: { ...headers, authorization: `Bearer ${token}`, "idempotency-key": "12345678" },
    });
    await fetch(`${origin}/production/v1/appointments`, next() as RequestInit);
    const app = new Koa().use((ctx) => {
      ctx.status = 429;
      ctx.body = { ok: false, error: "rate_limit_exceeded", correlationId: "0" };
    });
    const server = createServer(app.callback()).listen(0, "127.0.0.1");
    await once(server, "listening");
    const reference = () =>
      measureLoad({
        origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
        next,
        status: 429,
        pids,
        connections: CONNECTIONS,
      });
    print("refusals (reference in this process)", await load(next, 429), await reference());
    server.close();
  }
  if (wants("tokens")) {
    const { privateKey } = await generateKeyPair("EdDSA");
    const sign = () =>
      measureRate({
        work: () => new SignJWT({ client_id: randomUUID() }).setProtectedHeader({ alg: "EdDSA" }).sign(privateKey),
        concurrency: 8,
        pids,
      });
    const { applicationId: client_id, clientSecret: client_secret, environment } = application;
    const exchangeBody = JSON.stringify({ client_id, client_secret, environment, grant_type: "client_credentials" });
    const next = () => {
      const [a, b] = randomBytes(2);
      return {
        method: "POST" as const,
        path: "/production/v1/oauth/token",
        headers: { "content-type": "application/json", "x-forwarded-for": `10.1.${a}.${b}` },
        body: exchangeBody,
      };
    };
    print("tokens", await load(next, 200, 16), await sign());
    print("one token", await load(next, 200, 1), await sign());
  }
} finally {
  await client.dispose();
  await stack.stop();
  await mochaGlobalTeardown();
}
