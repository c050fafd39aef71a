import { spawn } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { expect } from "chai";
import { buildNodeCommand } from "../../../deploy/local/setup/project.ts";
import { derivePartnerAppointmentId } from "../../../shared/domain/events/ids.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { eventually } from "../../support/eventually.ts";
import {
  createPartnerWorld,
  exchange,
  type PartnerResponse,
  type PartnerWorld,
  sendRequest,
  startTestCommand,
  type TestCommand,
  TOKEN_ISSUER,
} from "../../support/partner.ts";
import { testServers } from "../../support/stack.ts";
import { serveCommandApp } from "./command-app.ts";

describe("idempotency of createPartnerAppointment", () => {
  let first: TestCommand;
  let world: PartnerWorld;

  before(async () => {
    first = await startTestCommand();
    world = await createPartnerWorld(first);
  });
  after(() => first.stop());

  const create = (url: string, key: string, more: Record<string, unknown> = {}, headers = world.headers) => {
    const { branchId, animalId } = world;
    const body = { branchId, animalId, scheduledAt: "2099-05-04T10:00:00Z", ...more };
    return sendRequest("POST", `${url}/production/v1/appointments`, { ...headers, "Idempotency-Key": key }, body);
  };
  const eventsOf = (idempotencyKey: string) =>
    first.log.read(`appointment-${derivePartnerAppointmentId({ ...world, sandboxGeneration: 0, idempotencyKey })}`);
  /** Returns the headers of the same partner for a service with another signing key. */
  const headersAt = async (url: string) => {
    const { body } = await exchange(url, world);
    return { ...world.headers, Authorization: `Bearer ${body.access_token}` };
  };
  const isReplay = ({ headers }: PartnerResponse) => headers.get("Idempotent-Replayed") === "true";

  it("if fifty concurrent requests use one idempotency key for two bodies, all requests with one of the bodies get 409", async () => {
    const key = randomUUID();
    const bodies = Array.from({ length: 50 }, (_, index) => ({ notes: index % 2 ? "odd" : "even" }));
    const answers = await Promise.all(bodies.map((more) => create(first.url, key, more)));
    const won = answers.filter(({ status }) => status === 201);
    const lost = answers.filter(({ status }) => status === 409);
    expect([won.length, lost.length]).to.deep.equal([25, 25]);
    expect(new Set(won.map(({ text }) => text)).size).to.equal(1);
    expect(won.filter((answer) => !isReplay(answer))).to.have.length(1);
    expect(new Set(lost.map(({ body }) => body.error))).to.deep.equal(new Set(["idempotency_conflict"]));
    const events = await eventsOf(key);
    expect(events).to.have.length(1);
    expect(events[0]?.data).to.include({ notes: won[0]?.body.appointment.notes });
  });

  it("a process repeats a recent response without the appointment's stream", async () => {
    const calls: string[] = [];
    const log: EventLog = {
      ...first.log,
      read: (stream, upTo) => {
        calls.push(`read ${stream.split("-")[0]}`);
        return first.log.read(stream, upTo);
      },
      append: (stream, revision, events) => {
        calls.push(`append ${stream.split("-")[0]}`);
        return first.log.append(stream, revision, events);
      },
    };
    const service = await serveCommandApp(first, { log });
    try {
      const key = randomUUID();
      const created = await create(service.url, key);
      expect(calls.filter((call) => call.endsWith("appointment"))).to.deep.equal(["append appointment"]);
      const repeated = await create(service.url, key);
      expect([repeated.text, isReplay(repeated)]).to.deep.equal([created.text, true]);
      expect((await create(service.url, key, { notes: "other" })).body.error).to.equal("idempotency_conflict");
      expect(calls.filter((call) => call.endsWith("appointment"))).to.have.length(1);
    } finally {
      await service.stop();
    }
  });

  it("an idempotency key is effective across several processes and a restart", async () => {
    const key = randomUUID();
    const second = await startTestCommand();
    const there = await headersAt(second.url);
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        index % 2 ? create(first.url, key) : create(second.url, key, {}, there),
      ),
    );
    await second.stop();
    const restarted = await startTestCommand();
    const again = await create(restarted.url, key, {}, await headersAt(restarted.url));
    const other = await create(restarted.url, key, { notes: "other" }, await headersAt(restarted.url));
    await restarted.stop();
    expect(new Set([...answers, again].map(({ status }) => status))).to.deep.equal(new Set([201]));
    expect(new Set([...answers, again].map(({ text }) => text)).size).to.equal(1);
    expect(answers.filter((answer) => !isReplay(answer))).to.have.length(1);
    expect([isReplay(again), other.status]).to.deep.equal([true, 409]);
    expect(await eventsOf(key)).to.have.length(1);
  });

  it("an idempotency key is effective even if the process is killed after the append and before the response", async () => {
    const key = randomUUID();
    const proxy = await startDroppingProxy((await testServers()).eventstoreUrl, "AppointmentRequested");
    const killed = await spawnCommand(proxy.url, first);
    const outcome = create(killed.url, key).then(
      () => "received a response",
      () => "cut off",
    );
    await eventually("the append is done", async () => (await eventsOf(key)).length === 1);
    killed.kill();
    expect(await outcome).to.equal("cut off");
    await proxy.close();
    const retry = await create(first.url, key);
    expect([retry.status, isReplay(retry)]).to.deep.equal([201, true]);
    expect((await create(first.url, key, { notes: "other" })).status).to.equal(409);
    expect(await eventsOf(key)).to.have.length(1);
  });
});

/** Starts the command service in a separate process, with the signing key of the given service. */
async function spawnCommand(eventstoreUrl: string, { signingKey }: TestCommand) {
  const { databaseUrls } = await testServers();
  const env = {
    PATH: process.env.PATH ?? "",
    PORT: "0",
    EVENTSTORE_URL: eventstoreUrl,
    DATABASE_URL: databaseUrls.command,
    TOKEN_ISSUER,
    TOKEN_SIGNING_KEYS: JSON.stringify({ keys: [signingKey] }),
    WEBHOOK_SECRET_KEYS: JSON.stringify({ current: "k1", keys: { k1: randomBytes(32).toString("base64") } }),
  };
  const { command, args } = buildNodeCommand("command/main.ts");
  const child = spawn(command, args, { env });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (text) => {
      said += text;
    });
  }
  const url = await eventually("listening", () => /"url":"([^"]+)"/.exec(said)?.[1]);
  return { url, kill: () => void child.kill("SIGKILL") };
}

/** Starts a proxy to the event log. After a request that contains the text, the proxy drops all responses. */
async function startDroppingProxy(target: string, text: string) {
  const { hostname, port } = new URL(target);
  const open = new Set<Socket>();
  let isDropping = false;
  const server = createServer((near) => {
    const far = connect(Number(port), hostname);
    near.on("data", (bytes) => {
      isDropping ||= bytes.includes(text);
      far.write(bytes);
    });
    far.on("data", (bytes) => isDropping || near.write(bytes));
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(from);
      from.on("error", () => to.destroy());
      from.on("close", () => to.destroy());
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `esdb://127.0.0.1:${(server.address() as AddressInfo).port}?tls=false`,
    async close() {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
