import { createSecretKey, randomUUID } from "node:crypto";
import { expect } from "chai";
import fc from "fast-check";
import { exportJWK, SignJWT, UnsecuredJWT } from "jose";
import pino from "pino";
import { createSessionVerifier, extractAccessToken, type SessionSettings } from "../../../query-api/portal/session.ts";
import { ApiError } from "../../../shared/http/api-error.ts";
import { ConfigError } from "../../../shared/runtime/config.ts";
import { startIdentityProvider } from "../../support/portal.ts";
import { useResource } from "../../support/resources.ts";

const logger = pino({ level: "silent" });

describe("portal session", () => {
  const provider = useResource(startIdentityProvider);
  const userId = randomUUID();

  function createSettings(overrides: Partial<SessionSettings> = {}): SessionSettings {
    return {
      PORTAL_COOKIE_NAME: provider.cookieName,
      PORTAL_JWT_ISSUER: provider.issuer,
      PORTAL_JWT_SECRET: provider.secret,
      PORTAL_JWKS_URL: provider.jwksUrl,
      ...overrides,
    };
  }

  async function verify(cookie: string, overrides?: Partial<SessionSettings>, now = Date.now()) {
    return (await createSessionVerifier(createSettings(overrides), logger))(cookie, now);
  }

  async function readRefusal(cookie: string, overrides?: Partial<SessionSettings>) {
    try {
      await verify(cookie, overrides);
    } catch (error) {
      if (error instanceof ApiError) return `${error.status} ${error.code}`;
      throw error;
    }
    return "accepted";
  }

  for (const algorithm of ["HS256", "ES256", "RS256"] as const)
    it(`the session verifier accepts a session signed with ${algorithm}`, async () => {
      const token = await provider.createToken({ sub: userId.toUpperCase() }, algorithm);
      expect(await verify(await provider.createCookie(token))).to.deep.equal({ userId });
    });

  it("the session verifier accepts a session until the session expires", async () => {
    const exp = Math.floor(Date.now() / 1000) + 600;
    const cookie = await provider.createCookie(await provider.createToken({ sub: userId, exp }));
    expect(await verify(cookie, {}, exp * 1000 - 1)).to.deep.equal({ userId });
    const expiryError = await verify(cookie, {}, exp * 1000).catch((error: unknown) => error);
    expect(expiryError).to.include({ status: 401, code: "session_expired" });
  });

  it("the session verifier refuses a cached session after its expiry, and does not mix up the sessions of two users", async () => {
    const verifySession = await createSessionVerifier(createSettings(), logger);
    const exp = Math.floor(Date.now() / 1000) + 30;
    const cookie = await provider.createCookie(await provider.createToken({ sub: userId, exp }));
    const otherUserId = randomUUID();
    const otherCookie = await provider.createCookie(await provider.createToken({ sub: otherUserId }));
    for (let request = 0; request < 2; request += 1) {
      expect(await verifySession(cookie, Date.now())).to.deep.equal({ userId });
      expect(await verifySession(otherCookie, Date.now())).to.deep.equal({ userId: otherUserId });
    }
    const expiryError = await verifySession(cookie, exp * 1000).catch((error: unknown) => error);
    expect(expiryError).to.include({ status: 401, code: "session_expired" });
  });

  describe("refuses with 401", () => {
    const invalidTokens: [string, () => Promise<string>][] = [
      ["the anon key", () => provider.createToken({ role: "anon" })],
      ["a service-role key", () => provider.createToken({ role: "service_role" })],
      ["a token without a role", () => provider.createToken({ role: undefined })],
      ["a token of another issuer", () => provider.createToken({ iss: "https://example.com/auth/v1" })],
      ["a token for another audience", () => provider.createToken({ aud: "anon" })],
      ["a token without an audience", () => provider.createToken({ aud: undefined } as never)],
      ["a token without an expiry", () => provider.createToken({ exp: undefined } as never)],
      ["a token without a subject", () => provider.createToken({ sub: undefined } as never)],
      ["a token whose subject is not a UUID", () => provider.createToken({ sub: "admin" })],
      ["a token that is not valid yet", () => provider.createToken({ nbf: Math.floor(Date.now() / 1000) + 60 })],
      ["a token with a changed signature", async () => `${(await provider.createToken()).slice(0, -6)}AAAAAA`],
      ["a text that is not a JWT", async () => "hello"],
      ["an unsigned token", async () => new UnsecuredJWT({ sub: userId, role: "authenticated" }).encode()],
      ["a token signed with another secret", () => signToken("HS256", "another secret, as long as it must be")],
      ["a token with an algorithm that is not allowed", () => signToken("HS512", provider.secret.repeat(2))],
      [
        "a token signed with the public key as the secret",
        async () => signToken("HS256", await fetchPublicKeys(), "ES256"),
      ],
    ];

    for (const [title, createToken] of invalidTokens)
      it(`the session verifier refuses ${title}`, async () => {
        expect(await readRefusal(await provider.createCookie(await createToken()))).to.equal(
          "401 authentication_required",
        );
      });

    it("the session verifier refuses a request without a session cookie", async () => {
      expect(await readRefusal("")).to.equal("401 authentication_required");
    });

    it("the session verifier refuses an algorithm that has no configured key", async () => {
      const sharedSecretCookie = await provider.createCookie(await provider.createToken({}, "HS256"));
      const publicKeyCookie = await provider.createCookie(await provider.createToken({}, "ES256"));
      expect(await readRefusal(sharedSecretCookie, { PORTAL_JWT_SECRET: undefined })).to.match(/^401/);
      expect(await readRefusal(publicKeyCookie, { PORTAL_JWKS_URL: undefined })).to.match(/^401/);
    });

    function signToken(alg: string, secret: string, kid = "one") {
      return new SignJWT({ role: "authenticated" })
        .setProtectedHeader({ alg, kid })
        .setIssuer(provider.issuer)
        .setAudience("authenticated")
        .setSubject(userId)
        .setExpirationTime("1h")
        .sign(createSecretKey(Buffer.from(secret)));
    }

    async function fetchPublicKeys() {
      return (await fetch(provider.jwksUrl)).text();
    }
  });

  it("the session verifier fetches the public keys once for concurrent requests", async () => {
    const cookie = await provider.createCookie(await provider.createToken({}, "ES256"));
    const requestCountBefore = provider.countKeyRequests();
    const verifySession = await createSessionVerifier(createSettings(), logger);
    await Promise.all(Array.from({ length: 5 }, () => verifySession(cookie, Date.now())));
    expect(provider.countKeyRequests() - requestCountBefore).to.equal(1);
  });

  it("the session verifier fails with 503 and Retry-After if the public keys cannot be fetched", async () => {
    const cookie = await provider.createCookie(await provider.createToken({}, "ES256"));
    const error = await verify(cookie, { PORTAL_JWKS_URL: "http://127.0.0.1:1/keys" }).catch((error: unknown) => error);
    expect(error).to.include({ status: 503, code: "session_keys_unavailable" });
    expect((error as ApiError).headers).to.have.property("Retry-After");
  });

  it("the session verifier uses the last public keys for an hour if they cannot be fetched", async () => {
    const ownProvider = await startIdentityProvider();
    const settings = createSettings({ PORTAL_JWT_ISSUER: ownProvider.issuer, PORTAL_JWKS_URL: ownProvider.jwksUrl });
    const verifySession = await createSessionVerifier(settings, logger);
    const createCookie = async () => ownProvider.createCookie(await ownProvider.createToken({ sub: userId }, "ES256"));
    const [firstCookie, secondCookie] = [await createCookie(), await createCookie()];
    await ownProvider.close();
    const [dateNow, { now: performanceNow }] = [Date.now, performance];
    const time = Date.now();
    // jose reads the age of the keys from this clock.
    Date.now = () => dateNow() + 120_000;
    try {
      expect(await verifySession(firstCookie, time)).to.deep.equal({ userId });
      performance.now = () => performanceNow.call(performance) + 61 * 60_000;
      const error = await verifySession(secondCookie, time).catch((error: unknown) => error);
      expect(error).to.include({ status: 503, code: "session_keys_unavailable" });
    } finally {
      Date.now = dateNow;
      performance.now = performanceNow;
    }
  });

  it("the session verifier fails with 503 only for sessions whose public key is unusable", async () => {
    const rsa = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256", publicExponent: new Uint8Array([1, 0, 1]) };
    const { publicKey } = await crypto.subtle.generateKey({ ...rsa, modulusLength: 1_024 }, true, ["sign", "verify"]);
    const shortKey = await exportJWK(publicKey);
    const unusableKeys = { RS256: shortKey, ES256: { kty: "EC", crv: "P-256", x: "AA", y: "AA" } };
    for (const [alg, key] of Object.entries(unusableKeys)) {
      const kid = `unusable ${alg}`;
      provider.publishKey({ ...key, kid });
      const header = Buffer.from(JSON.stringify({ alg, kid })).toString("base64url");
      const token = `${header}.${(await provider.createToken()).split(".")[1]}.${"A".repeat(171)}`;
      expect(await readRefusal(await provider.createCookie(token))).to.equal("503 session_keys_unavailable");
      expect(await readRefusal(await provider.createCookie(await provider.createToken({}, "RS256")))).to.equal(
        "accepted",
      );
    }
  });

  it("createSessionVerifier refuses a configuration with neither a secret nor public keys", async () => {
    const noKeys = { PORTAL_JWT_SECRET: undefined, PORTAL_JWKS_URL: undefined };
    const error = await createSessionVerifier(createSettings(noKeys), logger).catch((error: unknown) => error);
    expect(error).to.be.instanceOf(ConfigError);
    expect(String(error)).to.match(/PORTAL_JWT_SECRET or PORTAL_JWKS_URL/);
  });
});

const name = "sb-test-auth-token";
const createSessionText = (token: string) => JSON.stringify({ access_token: token, user: { name: "Ayşe 🐕" } });
const encodeSession = (token: string) => `base64-${Buffer.from(createSessionText(token)).toString("base64url")}`;
const readToken = (header: string | undefined) => extractAccessToken(header, name);

/** Splits a value into cookies with at most `size` characters each. */
function splitIntoCookies(value: string, size: number): string[] {
  const count = Math.ceil(value.length / size);
  return Array.from(
    { length: count },
    (_, index) => `${name}.${index}=${value.slice(index * size, (index + 1) * size)}`,
  );
}

describe("extractAccessToken", () => {
  const one = encodeSession("one");
  const chunks = splitIntoCookies(one, 20);
  const rawChunks = [createSessionText("one").slice(0, 40), createSessionText("one").slice(40)];
  for (const [title, header] of [
    ["base64url among other cookies", `a=b; ${name}=${one}; c=d`],
    ["a percent-encoded value", `${name}=${encodeURIComponent(createSessionText("one"))}`],
    ["raw JSON", `${name}={"access_token":"one"}`],
    ["a quoted value", `${name}="${one}"`],
    ["chunks in any order", chunks.toReversed().join("; ")],
    [
      "chunks that were percent-encoded one by one",
      rawChunks.map((part, index) => `${name}.${index}=${encodeURIComponent(part)}`).join("; "),
    ],
    ["a whole cookie rather than chunks", `${name}.0=${encodeSession("chunk")}; ${name}=${one}`],
    ["the first of repeated cookies", `${name}=${one}; ${name}=${encodeSession("second")}`],
    ["the first of repeated chunks", `${name}.0=${one}; ${name}.0=${encodeSession("second")}`],
    ["chunks next to empty cookies", `${name}=; ${name}.0=${one}; ${name}.1=`],
  ] as const)
    it(`the session cookie parser reads ${title}`, () => {
      expect(readToken(header)).to.equal("one");
    });

  for (const [title, header] of [
    ["no header", undefined],
    ["no cookie", "a=b"],
    ["a cookie without an equals sign", name],
    ["a cookie with another name", `x${name}=${encodeSession("x")}`],
    ["a cookie name in capital letters", `${name.toUpperCase()}=${encodeSession("x")}`],
    ["an unreadable whole cookie with valid chunks", `${name}=base64-x; ${name}.0=${encodeSession("x")}`],
    ["a missing chunk in the middle", splitIntoCookies(encodeSession("x"), 30).toSpliced(1, 1).join("; ")],
    ["a missing first chunk", splitIntoCookies(encodeSession("x"), 30).slice(1).join("; ")],
    ["a missing last chunk", splitIntoCookies(encodeSession("x"), 30).slice(0, -1).join("; ")],
    ["a stale chunk after the last chunk", `${name}.0=${encodeSession("x")}; ${name}.1=abcd`],
    ["too many chunks", splitIntoCookies(encodeSession("x"), 7).join("; ")],
    ["a chunk number with a leading zero", `${name}.00=${encodeSession("x")}`],
    ["base64 that is not base64url", `${name}=base64-ab+/`],
    ["base64url of bytes that are not UTF-8", `${name}=base64-${Buffer.from([0xff, 0xfe]).toString("base64url")}`],
    ["a text that is not JSON", `${name}=base64-${Buffer.from("hello").toString("base64url")}`],
    ["JSON without a token", `${name}={"user":{}}`],
    ["a token that is not a string", `${name}={"access_token":{}}`],
    ["the JSON value null", `${name}=null`],
  ] as const)
    it(`the session cookie parser returns undefined for ${title}`, () => {
      expect(readToken(header)).to.equal(undefined);
    });

  it("the session cookie parser returns undefined for any random Cookie header", () => {
    const pieceArbitrary = fc.constantFrom(name, `${name}.0`, `${name}.1`, "=", ";", "base64-", "%", '"', "{", "e30");
    fc.assert(
      fc.property(fc.array(fc.oneof(pieceArbitrary, fc.string())), (pieces) => {
        expect(readToken(pieces.join(""))).to.equal(undefined);
      }),
    );
  });
});
