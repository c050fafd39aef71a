import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { expect } from "chai";
import type pg from "pg";
import { agreeRateLimit, revokeInstallation } from "../../../command/operations/installation-operations.ts";
import { loadSandbox } from "../../../command/operations/sandbox-operations.ts";
import { DEFAULT_RATE_LIMIT_PER_MINUTE } from "../../../shared/domain/partner/installation.ts";
import * as rateLimits from "../../../shared/partner-api/rate-limits.ts";
import { partnerWrites } from "../../../shared/partner-api/writes.ts";
import { openDatabase } from "../../support/connections.ts";
import { eventually } from "../../support/eventually.ts";
import {
  createClinic,
  createPartnerWorld,
  createTestOperatorContext,
  installApplication,
  type PartnerResponse,
  type PartnerWorld,
  sendRequest,
  sendTokenRequest,
  startTestCommandService,
  type TestCommand,
} from "../../support/partner.ts";
import { startPartnerApi } from "../../support/partner-api.ts";
import { useResource } from "../../support/resources.ts";

const { MAX_ADDRESS_REQUESTS_PER_MINUTE, MAX_REFUSED_REQUESTS_PER_MINUTE, MAX_RESETS_PER_HOUR } = rateLimits;
const WRONG_SECRET = { client_secret: "cs_wrong" };

it("docs/partner-guide.md lists each rate limit of the partner API, and OpenAPI the limit of token exchanges", () => {
  const limits = Object.entries({ ...rateLimits, DEFAULT_RATE_LIMIT_PER_MINUTE });
  const document = readFileSync("docs/partner-guide.md", "utf8");
  for (const [name, limit] of limits.filter((entry) => typeof entry[1] === "number"))
    expect(document, name).to.contain(`${limit.toLocaleString("en")} per ${name.split("_").at(-1)?.toLowerCase()} |`);
  expect(partnerWrites.exchangeToken.description).to.contain(
    ` ${rateLimits.MAX_EXCHANGES_PER_MINUTE} tokens per minute`,
  );
});

describe("rate limits of the partner API", () => {
  const api = useResource(startPartnerApi);
  /** A second command service with the same event log and database. */
  let peer: TestCommand;
  let adminPool: pg.Pool;

  before(async () => {
    peer = await startTestCommandService({
      EVENTSTORE_URL: api.eventstoreUrl,
      DATABASE_URL: api.database.urls.command,
      TOKEN_SIGNING_KEYS: JSON.stringify({ keys: [api.command.signingKey] }),
    });
    adminPool = openDatabase(api.database.urls.projection, 1);
  });
  // Ends the windows of the counters instead of deleting the rows. If a row is missing, a process continues with the
  // window that it remembers.
  beforeEach(() => adminPool.query("UPDATE rate_limit.counter SET expire = $1", [Date.now() - 1]));

  const buildUnknownEndpointPath = () => `/production/v1/webhook-endpoints/${randomUUID()}`;
  const sendWrite = (url: string, headers: Record<string, string>) =>
    sendRequest("DELETE", url + buildUnknownEndpointPath(), headers);
  const sendRead = (headers: Record<string, string>) =>
    sendRequest("GET", `${api.queryUrl}/production/v1/clinic/context`, headers);
  const readRemaining = ({ headers }: PartnerResponse) => {
    const resetMs = Date.parse(headers.get("RateLimit-Reset") ?? "");
    expect(headers.get("RateLimit-Reset")).to.match(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    expect(resetMs - Date.now()).to.be.within(-5_000, 60_000);
    const [limitText, remainingText] = [headers.get("RateLimit-Limit"), headers.get("RateLimit-Remaining")];
    expect(limitText).to.match(/^[1-9]\d*$/);
    expect(Number(remainingText)).to.be.within(0, Number(limitText));
    expect(headers.get("RateLimit-Policy")).to.match(new RegExp(`^"[a-z]+";q=${limitText};w=(60|3600)$`));
    expect(headers.get("RateLimit")).to.match(new RegExp(`^"[a-z]+";r=${remainingText};t=\\d+$`));
    return Number(remainingText);
  };
  const readLimit = ({ headers }: PartnerResponse) => Number(headers.get("RateLimit-Limit"));
  const readKeys = async () =>
    (await adminPool.query<{ key: string }>("SELECT key FROM rate_limit.counter")).rows.map(({ key }) => key);

  it("all processes of both services share an installation's rate limit", async () => {
    const world = await createPartnerWorld(api.command, "production", { rateLimitPerMinute: 9 });
    await waitForReadAccess(world);
    for (const { url } of [api.command, peer]) await waitForSharedCounting(world, () => sendWrite(url, world.headers));
    await waitForSharedCounting(world, () => sendRead(world.headers));
    const otherWorld = await createPartnerWorld(api.command, "production", { rateLimitPerMinute: 6 });
    await waitForReadAccess(otherWorld);
    const senders = [
      () => sendWrite(api.command.url, otherWorld.headers),
      () => sendWrite(peer.url, otherWorld.headers),
      () => sendRead(otherWorld.headers),
    ];
    const responses: PartnerResponse[] = [];
    for (let round = 0; round < 9; round += 1) responses.push(await (senders[round % 3] as (typeof senders)[0])());
    for (const response of responses) expect(readLimit(response)).to.equal(6);
    const remainingCounts = responses.filter(({ status }) => status !== 429).map(readRemaining);
    expect(remainingCounts).to.deep.equal([4, 3, 2, 1, 0]);
    for (const response of responses.slice(5)) {
      expect([response.status, response.body.error, readRemaining(response)]).to.deep.equal([
        429,
        "rate_limit_exceeded",
        0,
      ]);
      expect(Number(response.headers.get("Retry-After"))).to.be.within(1, 60);
    }
    // A new agreed limit takes effect within a second, even for a caller whose last request was refused.
    await agreeRateLimit(api.command.log, { ...otherWorld, rateLimitPerMinute: 1_000 }, createTestOperatorContext());
    await eventually(
      "the new limit applies",
      async () => (await sendWrite(peer.url, otherWorld.headers)).status === 404,
    );
  });

  it("a request that cannot be counted gets 503, and requests of other callers are not delayed", async () => {
    const [world, otherWorld] = await Promise.all([createPartnerWorld(api.command), createPartnerWorld(api.command)]);
    await sendWrite(peer.url, world.headers);
    await adminPool.query("BEGIN");
    await adminPool.query("SELECT FROM rate_limit.counter WHERE key LIKE $1 FOR UPDATE", [`%${world.clinicId}`]);
    let hasSlowResponseArrived = false;
    const slowResponsePromise = sendWrite(peer.url, world.headers).finally(() => {
      hasSlowResponseArrived = true;
    });
    expect((await sendWrite(peer.url, otherWorld.headers)).status).to.equal(404);
    expect(hasSlowResponseArrived, "before the slow one").to.equal(false);
    const { status, body, headers } = await slowResponsePromise;
    await adminPool.query("ROLLBACK");
    expect([status, body.error, headers.get("Retry-After")]).to.deep.equal([503, "rate_limit_unavailable", "1"]);
  });

  it("each installation of an application has its own rate limit", async () => {
    const world = await createPartnerWorld(api.command, "production", { rateLimitPerMinute: 1 });
    const clinic = await createClinic(api.command.log);
    await installApplication(api.command.log, world, clinic, { rateLimitPerMinute: 5 });
    await sendWrite(peer.url, world.headers);
    expect((await sendWrite(peer.url, world.headers)).status).to.equal(429);
    const otherHeaders = { ...world.headers, "X-SERVICE-Clinic-ID": clinic.clinicId };
    expect(readRemaining(await sendWrite(peer.url, otherHeaders))).to.equal(4);
  });

  it("every response contains rate limit headers, even if the request is refused", async () => {
    const world = await createPartnerWorld(api.command);
    await waitForReadAccess(world);
    const { command, queryUrl } = api;
    const tokenHeader = { Authorization: world.headers.Authorization ?? "" };
    const strangerHeaders = { ...tokenHeader, "X-SERVICE-Clinic-ID": randomUUID() };
    const basePath = "/production/v1";
    const requests: [string, number, Promise<PartnerResponse>][] = [
      ["no token", 401, sendWrite(command.url, {})],
      ["a bad token", 401, sendWrite(command.url, { Authorization: "Bearer x" })],
      ["no clinic", 403, sendWrite(command.url, tokenHeader)],
      ["no installation", 403, sendWrite(command.url, strangerHeaders)],
      ["no such path", 404, sendRequest("POST", `${command.url}${basePath}/nothing`)],
      ["no such method", 405, sendRequest("PUT", `${command.url}${basePath}/appointments`)],
      ["a token", 200, sendTokenRequest(command.url, world)],
      ["wrong credentials", 401, sendTokenRequest(command.url, world, WRONG_SECRET)],
      ["a token request that is no JSON", 400, sendRequest("POST", `${command.url}${basePath}/oauth/token`, {}, "{")],
      [
        "a body that is no JSON",
        400,
        sendRequest("POST", `${command.url}${basePath}/appointments`, world.headers, "{"),
      ],
      ["no token, to read", 401, sendRead({})],
      ["no clinic, to read", 403, sendRead(tokenHeader)],
      ["no installation, to read", 403, sendRead(strangerHeaders)],
      ["no such path, to read", 404, sendRequest("GET", `${queryUrl}${basePath}/nothing`)],
      ["no such method, to read", 405, sendRequest("POST", `${queryUrl}${basePath}/clinic/context`)],
    ];
    for (const [caseName, status, responsePromise] of requests) {
      expect((await responsePromise).status, caseName).to.equal(status);
      expect(readRemaining(await responsePromise), caseName).to.be.above(0);
    }
  });

  it("unauthorized requests have a separate limit, which does not affect authorized requests", async () => {
    const world = await createPartnerWorld(api.command);
    const revokedWorld = await createPartnerWorld(api.command);
    await revokeInstallation(api.command.log, { ...revokedWorld, reason: null }, createTestOperatorContext());
    const foreignHeaders = { ...world.headers, "X-SERVICE-Clinic-ID": revokedWorld.clinicId };
    expect(readRemaining(await sendWrite(peer.url, foreignHeaders))).to.equal(MAX_REFUSED_REQUESTS_PER_MINUTE - 1);
    await setCounter(`refused ${world.applicationId}`, MAX_REFUSED_REQUESTS_PER_MINUTE);
    expect((await sendWrite(peer.url, foreignHeaders)).status).to.equal(429);
    expect((await sendWrite(peer.url, world.headers)).status).to.equal(404);
    expect((await sendWrite(peer.url, revokedWorld.headers)).status).to.equal(403);
  });

  it("if two limits apply to a request, the headers describe the limit with fewer remaining requests", async () => {
    const world = await createPartnerWorld(api.command);
    const firstResponse = await sendTokenRequest(peer.url, world);
    expect([readLimit(firstResponse), readRemaining(firstResponse)]).to.deep.equal([30, 28]);
    await setCounter("address", MAX_ADDRESS_REQUESTS_PER_MINUTE - 5);
    const nextResponse = await sendTokenRequest(peer.url, world);
    expect([readLimit(nextResponse), readRemaining(nextResponse)]).to.deep.equal([MAX_ADDRESS_REQUESTS_PER_MINUTE, 4]);
  });

  it("sandbox resets have an hourly limit that all processes share and that affects no other operation", async () => {
    const partner = await api.createPartner();
    const urls = [api.command.url, peer.url];
    const postReset = (requestNumber: number, headers = partner.headers) =>
      sendRequest("POST", `${urls[requestNumber % 2]}/sandbox/v1/sandbox/reset`, headers);
    const readHourlyRemaining = ({ headers }: PartnerResponse) => {
      const resetMs = Date.parse(headers.get("RateLimit-Reset") ?? "");
      expect(resetMs - Date.now()).to.be.within(3_500_000, 3_600_000);
      return Number(headers.get("RateLimit-Remaining"));
    };
    expect(readHourlyRemaining(await postReset(0))).to.equal(MAX_RESETS_PER_HOUR - 1);
    await setCounter(`reset ${partner.applicationId}`, MAX_RESETS_PER_HOUR - 3);
    for (const remainingCount of [2, 1, 0]) {
      const response = await postReset(remainingCount);
      expect([response.status, readHourlyRemaining(response)]).to.deep.equal([200, remainingCount]);
    }
    for (const requestNumber of [0, 1]) {
      const { status, body, headers } = await postReset(requestNumber);
      expect([status, body.error]).to.deep.equal([429, "rate_limit_exceeded"]);
      expect(Number(headers.get("Retry-After"))).to.be.within(3_500, 3_600);
    }
    const sandbox = await loadSandbox(api.command.log, partner.applicationId);
    expect(sandbox?.generation, "of the first and four more").to.equal(5);
    expect((await partner.request("GET", "/sandbox")).status, "of reads").to.equal(200);
    // Both limits have one remaining request. The headers describe the hourly limit, because it resets later.
    const otherPartner = await api.createPartner();
    expect((await postReset(0, otherPartner.headers)).status).to.equal(200);
    await setCounter(`reset ${otherPartner.applicationId}`, MAX_RESETS_PER_HOUR - 1);
    await setCounter(`installation ${otherPartner.applicationId}`, DEFAULT_RATE_LIMIT_PER_MINUTE - 1);
    const lastResponse = await postReset(0, otherPartner.headers);
    expect([lastResponse.status, readHourlyRemaining(lastResponse)]).to.deep.equal([200, 0]);
  });

  it("a sandbox reset succeeds while the table of shared counters is missing", async () => {
    const partner = await api.createPartner();
    await adminPool.query("ALTER TABLE rate_limit.counter RENAME TO elsewhere");
    const { status } = await partner.request("POST", "/sandbox/reset");
    await adminPool.query("ALTER TABLE rate_limit.elsewhere RENAME TO counter");
    expect(status).to.equal(200);
  });

  // Must be the last test: a process remembers callers over the limit for the rest of the minute.
  it("the limit per network address applies to requests without a token, but not to requests with a token", async () => {
    const world = await createPartnerWorld(api.command);
    await waitForSharedCounting(world, () => sendWrite(peer.url, world.headers));
    await sendWrite(peer.url, {});
    await setCounter("address", MAX_ADDRESS_REQUESTS_PER_MINUTE);
    for (const response of [
      await sendWrite(peer.url, {}),
      await sendRead({}),
      await sendTokenRequest(peer.url, world),
    ]) {
      expect([response.status, response.body.error, readRemaining(response)]).to.deep.equal([
        429,
        "rate_limit_exceeded",
        0,
      ]);
      expect(Number(response.headers.get("Retry-After"))).to.be.within(1, 60);
    }
    expect((await sendWrite(peer.url, world.headers)).status).to.equal(404);
  });

  /** Waits until a service counts requests in Postgres. */
  async function waitForSharedCounting(world: PartnerWorld, send: () => Promise<unknown>): Promise<void> {
    await adminPool.query("DELETE FROM rate_limit.counter");
    await eventually("counters are shared", async () => {
      await send();
      return (await readKeys()).some((key) => key.includes(world.clinicId));
    });
  }

  /** Sets the number of requests in an existing counter. */
  async function setCounter(key: string, points: number): Promise<void> {
    const { rowCount } = await adminPool.query("UPDATE rate_limit.counter SET points = $2 WHERE key LIKE $1", [
      `%${key}%`,
      points,
    ]);
    expect(rowCount).to.equal(1);
  }

  /** Waits until the read models contain the partner's access. */
  async function waitForReadAccess(world: PartnerWorld): Promise<void> {
    await eventually("the read models know", async () => ![401, 403].includes((await sendRead(world.headers)).status));
  }
});
