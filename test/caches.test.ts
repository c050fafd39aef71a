import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect } from "chai";
import { generateKeyPair, SignJWT } from "jose";
import { pino } from "pino";
import { createSecretCache } from "../projection/webhooks/send/attempt-delivery.ts";
import { createRemoteKeys } from "../query-api/http/remote-keys.ts";
import { describeLocalDays } from "../query-api/portal/local-days.ts";
import { createSessionVerifier } from "../query-api/portal/session.ts";
import { buildAudience, cacheVerifiedTokens, createTokenVerifier } from "../shared/auth/access-token.ts";
import { DAY_MS } from "../shared/domain/time/local-time.ts";
import { listen } from "../shared/http/listen.ts";
import { createRouter } from "../shared/http/router.ts";
import { cacheDataKeys } from "../shared/personal-data/create-data-keys.ts";
import { Windows } from "../shared/rate-limit/windows.ts";
import { startIdentityProvider } from "./support/portal.ts";
import { autoStop } from "./support/resources.ts";

const MIB = 1024 * 1024;

/** Time after an unknown key id during which no keys are fetched; see query-api/http/remote-keys.ts. Milliseconds. */
const KEY_COOLDOWN_MS = 5_000;

describe("an attack on a cache", () => {
  setFlagsFromString("--expose-gc");
  const collectGarbage: () => void = runInNewContext("gc");

  /** Sends requests that all differ. @returns the growth of the heap in bytes */
  async function attack(requestCount: number, request: (index: number) => unknown): Promise<number> {
    await request(0);
    collectGarbage();
    const bytesBefore = process.memoryUsage().heapUsed;
    for (let index = 1; index <= requestCount; index += 1) await request(index);
    collectGarbage();
    return process.memoryUsage().heapUsed - bytesBefore;
  }

  it("all headers with the same access token share one entry of the cache of verified tokens", async () => {
    const { publicKey, privateKey } = await generateKeyPair("EdDSA", { crv: "Ed25519" });
    const issuer = "https://partner.example";
    const [applicationId, credentialId] = [randomUUID(), randomUUID()];
    const claims = { client_id: applicationId, credential_id: credentialId, environment: "sandbox" };
    const token = await new SignJWT({ ...claims, scope: "clinic:read", jti: randomUUID() })
      .setProtectedHeader({ alg: "EdDSA", typ: "at+jwt" })
      .setIssuer(issuer)
      .setAudience(buildAudience(issuer, "sandbox"))
      .setSubject(applicationId)
      .setIssuedAt()
      .setExpirationTime("10m")
      .sign(privateKey);
    let verificationCount = 0;
    const getKey = async () => {
      verificationCount += 1;
      return publicKey;
    };
    const verify = cacheVerifiedTokens(createTokenVerifier(getKey, issuer));
    const growth = await attack(3_000, (index) => verify([`Bearer${" ".repeat(index * 5 + 1)}${token}`], "sandbox"));
    expect(verificationCount).to.equal(1);
    expect(growth).to.be.lessThan(2 * MIB);
    const forgedToken = `${token.slice(0, token.lastIndexOf("."))}.${Buffer.alloc(64).toString("base64url")}`;
    const error = await verify([`Bearer ${forgedToken}`], "sandbox").catch((refusal: unknown) => refusal);
    expect(error, "a token with another signature").to.include({ status: 401 });
  });

  it("other cookies do not take memory in the cache of sessions, and unknown keys are rarely fetched", async () => {
    const startedAt = performance.now();
    const provider = await startIdentityProvider();
    const settings = { PORTAL_COOKIE_NAME: provider.cookieName, PORTAL_JWT_ISSUER: provider.issuer };
    const verifySession = await createSessionVerifier(
      { ...settings, PORTAL_JWT_SECRET: undefined, PORTAL_JWKS_URL: provider.jwksUrl },
      pino({ enabled: false }),
    );
    const userId = randomUUID();
    const cookie = await provider.createCookie(await provider.createToken({ sub: userId }, "ES256"));
    const growth = await attack(2_000, async (index) => {
      const session = await verifySession(`${cookie}; other=${"x".repeat(10_000)}${index}`, Date.now());
      expect(session).to.deep.equal({ userId });
    });
    expect(growth).to.be.lessThan(2 * MIB);
    const tokenKeys = await createRemoteKeys(
      { url: new URL(provider.jwksUrl), name: "keys", maxStaleAgeMs: 0 },
      pino({ enabled: false }),
    );
    const verifyToken = createTokenVerifier(tokenKeys, "https://partner.example");
    for (const [alg, verify] of [
      ["ES256", (token: string) => verifySession(`${provider.cookieName}={"access_token":"${token}"}`, Date.now())],
      ["EdDSA", (token: string) => verifyToken([`Bearer ${token}`], "sandbox")],
    ] as const) {
      const { privateKey } = await generateKeyPair(alg);
      const keyGrowth = await attack(1_000, async (index) => {
        const token = await new SignJWT({}).setProtectedHeader({ alg, kid: `key ${index}` }).sign(privateKey);
        const error = await verify(token).catch((refusal: unknown) => refusal);
        expect(error).to.include({ status: 401 });
      });
      expect(keyGrowth).to.be.lessThan(2 * MIB);
    }
    const repeatedCount = 2 * Math.floor((performance.now() - startedAt) / KEY_COOLDOWN_MS);
    expect(provider.countKeyRequests()).to.be.at.most(4 + repeatedCount);
  });

  it("the caches of secrets and data keys are bounded in bytes", async () => {
    const secretCache = createSecretCache({ open: async (encryptedSecret) => encryptedSecret.slice(1) });
    const openSecret = (index: number) => secretCache.open(`${index} ${randomBytes(1_000).toString("hex")}`);
    expect(await attack(20_000, openSecret)).to.be.lessThan(24 * MIB);
    const dataKeys = cacheDataKeys({
      getOrCreate: async (owners) => owners.map(() => ({ id: randomUUID(), key: randomBytes(32) })),
      find: async (ids) => new Map(ids.map((id) => [id, randomBytes(32)])),
    });
    const growth = await attack(50_000, async () => {
      await dataKeys.getOrCreate([{ person: { type: "customer", id: randomUUID() }, category: "contact" }]);
      await dataKeys.find([randomUUID()]);
    });
    expect(growth).to.be.lessThan(24 * MIB);
  });

  it("the local days of all windows that a caller can choose are bounded in bytes", async () => {
    const describeDay = (day: number) => describeLocalDays(["Europe/Berlin"], day * DAY_MS, day * DAY_MS + 1);
    expect(await attack(20_000, describeDay)).to.be.lessThan(4 * MIB);
  });

  it("requests that wait for each other take no memory after their client has reset the connection", async () => {
    let onRequest = () => undefined as unknown;
    const server = await autoStop(listen(() => onRequest(), "127.0.0.1", 0, 0));
    const resetDuringRequests = async () => {
      const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
      onRequest = () => socket.resetAndDestroy();
      socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(100));
      await once(socket, "close");
    };
    expect(await attack(200, resetDuringRequests)).to.be.lessThan(4 * MIB);
    await server.close();
  });

  it("the windows of the rate limiter and the paths of the router are bounded in bytes", async () => {
    const windows = new Windows();
    const startWindow = (index: number) => windows.findOrStart(`token ${randomUUID()} ${index}`, 60_000);
    expect(await attack(150_000, startWindow)).to.be.lessThan(24 * MIB);
    const router = createRouter("/v1").get("/appointments/:id", () => undefined);
    const matchPath = (index: number) => router.match(`/v1/appointments/${"x".repeat(1_000)}${index}`, "GET");
    expect(await attack(20_000, matchPath)).to.be.lessThan(2 * MIB);
  });
});
