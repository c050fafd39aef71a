import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { expect } from "chai";
import { exportJWK, generateKeyPair } from "jose";
import { startCommandService } from "../../command/start.ts";
import { buildNodeCommand } from "../../deploy/local/setup/project.ts";
import { connectToLog } from "../support/connections.ts";
import { PERSONAL_DATA_KEYS } from "../support/data-keys.ts";
import { eventually } from "../support/eventually.ts";
import { type FaultProxy, startFaultProxy } from "../support/fault-proxy.ts";
import { createMigratedDatabase } from "../support/migrated-database.ts";
import { createPartnerWorld, sendRequest, sendTokenRequest } from "../support/partner.ts";
import { createPlainLog } from "../support/plain-log.ts";
import { getTestServers, type TestDatabase } from "../support/stack.ts";

describe("command process", () => {
  let settings: Record<string, string>;
  let database: TestDatabase;
  const runningProcesses = new Set<ChildProcess>();
  const proxies: FaultProxy[] = [];

  before(async () => {
    const { eventstoreUrl } = await getTestServers();
    database = await createMigratedDatabase();
    const { privateKey } = await generateKeyPair("EdDSA", { extractable: true });
    const keys = { k1: randomBytes(32).toString("base64") };
    settings = {
      PATH: process.env.PATH ?? "",
      PORT: "0",
      LOG_LEVEL: "debug",
      EVENTSTORE_URL: eventstoreUrl,
      DATABASE_URL: database.urls.command,
      TOKEN_ISSUER: "http://partners.test",
      TOKEN_SIGNING_KEYS: JSON.stringify({ keys: [{ ...(await exportJWK(privateKey)), kid: "one" }] }),
      PERSONAL_DATA_KEYS,
      WEBHOOK_SECRET_KEYS: JSON.stringify({ current: "k1", keys }),
      WEBHOOK_ALLOW_LOOPBACK: "true",
      DRAIN_DELAY_MS: "0",
    };
  });
  after(async () => {
    for (const child of runningProcesses) child.kill("SIGKILL");
    await Promise.all(proxies.map((proxy) => proxy.close()));
  });

  function startCommandProcess(env: Record<string, string>) {
    const { command, args } = buildNodeCommand("command/main.ts");
    const child = spawn(command, args, { env });
    runningProcesses.add(child);
    const output = { out: "", err: "" };
    child.stdout.on("data", (text) => {
      output.out += text;
    });
    child.stderr.on("data", (text) => {
      output.err += text;
    });
    const exitPromise = once(child, "close").then(([code]) => {
      runningProcesses.delete(child);
      return code as number;
    });
    return { child, output, ended: exitPromise };
  }

  it("the command service logs no secret, token or body at level debug, and stops on SIGTERM", async () => {
    const { child, output, ended: exitPromise } = startCommandProcess(settings);
    const url = await eventually("listening", () => /"url":"([^"]+)"/.exec(output.out)?.[1]);
    const client = connectToLog(settings.EVENTSTORE_URL ?? "");
    const world = await createPartnerWorld({ url, log: createPlainLog(client) }, "sandbox");
    await sendTokenRequest(url, world, { client_secret: "cs_wrong_secret" });
    const request = { branchId: world.branchId, animalId: world.animalId, notes: "limps on the left" };
    const headers = { ...world.headers, "Idempotency-Key": randomUUID() };
    const appointmentsUrl = `${url}/sandbox/v1/appointments`;
    const creationResponse = await sendRequest("POST", appointmentsUrl, headers, {
      ...request,
      scheduledAt: "2099-05-04T10:00:00Z",
    });
    expect(creationResponse.status).to.equal(201);
    await sendRequest("POST", appointmentsUrl, headers, request);
    await sendRequest("POST", appointmentsUrl, headers, '{"notes":"limps on the left"');
    const input = { url: "http://127.0.0.1:9/hooks?key=in-the-url", events: ["appointment.created"] };
    const response = await sendRequest("POST", `${url}/sandbox/v1/webhook-endpoints`, world.headers, input);
    expect(response.status).to.equal(201);
    child.kill("SIGTERM");
    expect(await exitPromise).to.equal(0);
    const requestLines = output.out.split("\n").filter((line) => line.includes('"msg":"request"'));
    expect(requestLines).to.have.length(6);
    for (const line of requestLines) expect(line).to.include('"correlationId":"').and.include('"route":"/sandbox/v1/');
    const secrets = [
      ...[world.clientSecret, "cs_wrong_secret", world.token, response.body.secret, headers["Idempotency-Key"]],
      ...[world.animalId, "limps", "in-the-url", settings.WEBHOOK_SECRET_KEYS ?? ""],
      PERSONAL_DATA_KEYS,
    ];
    for (const secret of secrets) expect(output.out + output.err).not.to.include(secret);
  });

  it("the command service stops in time even if no server responds", async () => {
    for (const url of [settings.EVENTSTORE_URL, settings.DATABASE_URL]) proxies.push(await startFaultProxy(url ?? ""));
    const [EVENTSTORE_URL = "", DATABASE_URL = ""] = proxies.map(({ url }) => url);
    const { child, output, ended: exitPromise } = startCommandProcess({ ...settings, EVENTSTORE_URL, DATABASE_URL });
    const url = await eventually("listening", () => /"url":"([^"]+)"/.exec(output.out)?.[1]);
    // To count the request, the service opens a connection to Postgres.
    const credentials = { client_id: randomUUID(), client_secret: "cs_wrong_secret" };
    const request = { ...credentials, grant_type: "client_credentials", environment: "sandbox" };
    const response = await sendRequest("POST", `${url}/sandbox/v1/oauth/token`, {}, request);
    expect(response.status).to.equal(401);
    for (const proxy of proxies) proxy.mute();
    child.kill("SIGTERM");
    // If the stop takes too long, the process exits with 1.
    expect(await exitPromise).to.equal(0);
  });

  const getStartError = (env: Record<string, string>) =>
    startCommandService(env).then(
      () => "started",
      (error: Error) => `${error.name}: ${error.message}`,
    );

  it("the command service does not start with missing or invalid settings, and prints names but no values", async () => {
    const { TOKEN_ISSUER: _, ...env } = settings;
    const startError = await getStartError({ ...env, WEBHOOK_SECRET_KEYS: "hush" });
    expect(startError).to.match(/^ConfigError: settings: .*TOKEN_ISSUER is missing.*WEBHOOK_SECRET_KEYS must be JSON$/);
    expect(startError).not.to.include("hush");
  });

  it("the command service does not start with an invalid signing key", async () => {
    const key = { kty: "OKP", crv: "Ed25519", kid: "broken", x: "AA", d: "AA" };
    const startError = await getStartError({ ...settings, TOKEN_SIGNING_KEYS: JSON.stringify({ keys: [key] }) });
    expect(startError).to.match(/^StartError: settings: TOKEN_SIGNING_KEYS: key broken is not .*$/);
  });

  it("the command service does not start without the event log, and prints one line", async () => {
    const env = { ...settings, EVENTSTORE_URL: "esdb://127.0.0.1:9?tls=false" };
    const { output, ended: exitPromise } = startCommandProcess(env);
    expect(await exitPromise).to.equal(1);
    expect(output.err).to.match(/^command: .*EVENTSTORE_URL.*\n$/);
    expect(output.err.split("\n")).to.have.length(2);
  });
});
