import { IncomingMessage, type RequestListener, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { expect } from "chai";
import type Koa from "koa";
import type { VerifiedToken } from "../../../shared/auth/access-token.ts";
import type { RequestState } from "../../../shared/http/app.ts";
import { type AccessRecord, type ClinicState, requirePartnerAccess } from "../../../shared/partner-api/access.ts";
import { createAuthentication } from "../../../shared/partner-api/authenticate.ts";
import { partnerOperations } from "../../../shared/partner-api/operations.ts";
import { eventually } from "../../support/eventually.ts";
import { listRoutes, routedApps } from "../../support/routed-apps.ts";
import { createSilentApp } from "../../support/silent-app.ts";

const MAX_ADDRESS_REQUESTS = 20;
const MAX_APPLICATION_REQUESTS = 100;

/** Fake limiter that counts each request as the first of its window. */
const limiter = { count: async () => ({ used: 1, endsAt: Date.now() + 1_000, endsInMs: 1_000 }) };

/** Address of the simulated client. */
let address = "192.0.2.250";

/** Handles a request whose response never reaches the client. The request therefore stays in progress. */
function send(handle: RequestListener, method: string, url: string, headers = {}): Promise<ServerResponse> {
  const socket = Object.defineProperty(new Socket(), "remoteAddress", { value: address });
  const request = new IncomingMessage(socket);
  Object.assign(request, { method, url, headers: { host: "test", ...headers } });
  request.rawHeaders = Object.entries(request.headers).flat() as string[];
  request.push(null);
  const response = new ServerResponse(request);
  return new Promise((resolve) => {
    const end = response.end.bind(response) as (...args: unknown[]) => ServerResponse;
    response.end = (...args: unknown[]) => {
      resolve(response);
      return end(...args);
    };
    handle(request, response as never);
  });
}

describe("the limit of concurrent requests without a credential", () => {
  const minPublicPaths = { queryApi: 40, command: 4, audit: 20 };
  for (const name of ["queryApi", "command", "audit"] as const)
    it(`${name} handles at most 20 requests for its public documents at the same time for each address`, async () => {
      const handle = routedApps[name].callback();
      const publicPaths: string[] = [];
      const paths = [...listRoutes(name)].filter(([path, methods]) => methods.includes("GET") && !path.includes(":"));
      for (const [index, [path]] of paths.entries()) {
        address = `192.0.2.${index}`;
        if ((await send(handle, "GET", path)).statusCode !== 200) continue;
        publicPaths.push(path);
        for (let count = 1; count < MAX_ADDRESS_REQUESTS; count += 1) await send(handle, "GET", path);
        const refusal = await send(handle, "GET", path);
        expect(refusal.statusCode, path).to.equal(429);
        expect(refusal.getHeaders(), path).to.include({ "ratelimit-remaining": "0", "retry-after": "1" });
      }
      expect(publicPaths).to.have.length.of.at.least(minPublicPaths[name]);
    });

  it("command handles at most 20 token exchanges at the same time for each address", async () => {
    const handle = routedApps.command.callback();
    const statuses = new Map<number, number>();
    for (let count = 0; count < 25; count += 1) {
      const { statusCode } = await send(handle, "POST", "/sandbox/v1/oauth/token");
      statuses.set(statusCode, (statuses.get(statusCode) ?? 0) + 1);
    }
    expect([...statuses]).to.deep.equal([
      [415, MAX_ADDRESS_REQUESTS],
      [429, 5],
    ]);
  });
});

describe("the authentication of a partner's request", () => {
  const applicationId = "0190a5a0-0000-7000-8000-000000000001";
  const clinicId = "0190a5a0-0000-7000-8000-000000000002";
  const token: VerifiedToken = {
    applicationId,
    credentialId: "0190a5a0-0000-7000-8000-000000000003",
    environment: "production",
    scopes: ["clinic:read"],
    expiresAt: Date.now() + 900_000,
  };
  const accessRecord: AccessRecord = {
    isCredentialActive: true,
    applicationScopes: ["clinic:read"],
    installation: { scopes: ["clinic:read"], branchIds: null, animalAccess: "all", rateLimitPerMinute: 120 } as never,
    isBranchKnown: true,
  };

  /** Serves one operation. @param findAccess looks up the caller's access data */
  function serve(findAccess: () => Promise<AccessRecord>, findExcess: () => unknown = () => undefined) {
    const operation = partnerOperations.getClinicContext;
    const dependencies = { verify: async () => token, limiter: { ...limiter, findExcess } as never, brand: "SERVICE" };
    const app = createSilentApp();
    app.use(createAuthentication(dependencies).authenticate(operation, "production") as Koa.Middleware<RequestState>);
    app.use(async (ctx) => {
      requirePartnerAccess(ctx as unknown as Koa.ParameterizedContext<ClinicState>, operation, await findAccess());
      ctx.body = { ok: true };
    });
    const handle = app.callback();
    return async (headers = {}) => {
      const response = await send(handle, "GET", "/", { "x-service-clinic-id": clinicId, ...headers });
      return response.statusCode;
    };
  }

  it("a refusal of access refuses further requests for a second without looking up the access", async () => {
    let [lookUpCount, isInstalled] = [0, false];
    const get = serve(async () => {
      lookUpCount += 1;
      return { ...accessRecord, installation: isInstalled ? accessRecord.installation : null };
    });
    for (let count = 0; count < 100; count += 1) expect(await get()).to.equal(403);
    expect(lookUpCount).to.be.at.most(2);
    isInstalled = true;
    expect(await get({ "x-service-log-position": "1" })).to.equal(200);
    await eventually("the new right applies", async () => (await get()) === 200);
  });

  it("access data of a refused request never permits another request", async () => {
    let hasScope = true;
    const records = () => ({ ...accessRecord, isCredentialActive: hasScope });
    let excess: unknown;
    const get = serve(
      async () => records(),
      () => excess,
    );
    expect(await get()).to.equal(200);
    hasScope = false;
    expect(await get()).to.equal(401);
    hasScope = true;
    excess = { used: 999, endsAt: Date.now(), endsInMs: 1 };
    await eventually("the refusal is forgotten", async () => (await get()) === 200);
  });

  it("an application has at most 100 requests in progress, and a refusal has the rate limit headers", async () => {
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const get = serve(() => held.then(() => accessRecord));
    const statuses = Array.from({ length: MAX_APPLICATION_REQUESTS + 20 }, () => get());
    expect(await Promise.all(statuses.slice(MAX_APPLICATION_REQUESTS))).to.deep.equal(new Array(20).fill(429));
    release();
    expect(new Set(await Promise.all(statuses.slice(0, MAX_APPLICATION_REQUESTS)))).to.deep.equal(new Set([200]));
    expect(await get()).to.equal(200);
  });
});
