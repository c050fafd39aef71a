import { createSecretKey, randomUUID } from "node:crypto";
import { expect } from "chai";
import { SignJWT, UnsecuredJWT } from "jose";
import { createSessionVerifier, type SessionSettings } from "../../../query-api/portal/session.ts";
import { ApiError } from "../../../shared/http/api-error.ts";
import { ConfigError } from "../../../shared/runtime/config.ts";
import { type IdentityProvider, startIdentityProvider } from "../../support/portal.ts";

describe("portal session", () => {
  let provider: IdentityProvider;
  const userId = randomUUID();

  before(async () => {
    provider = await startIdentityProvider();
  });

  after(() => provider.close());

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
    return createSessionVerifier(createSettings(overrides))(cookie, now);
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

  for (const algorithm of ["HS256", "ES256", "RS256"] as const) {
    it(`the session verifier accepts a session signed with ${algorithm}`, async () => {
      const token = await provider.createToken({ sub: userId }, algorithm);
      expect(await verify(await provider.createCookie(token))).to.deep.equal({ userId });
    });
  }

  it("the session verifier reads a session from encoded and raw cookie chunks", async () => {
    const token = await provider.createToken({ sub: userId.toUpperCase() });
    const metadata = { story: "Çok uzun bir köpek hikâyesi 🐕 ".repeat(120) };
    for (const encoding of ["base64url", "raw"] as const) {
      const cookie = await provider.createCookie(token, { metadata, encoding });
      expect(cookie).to.contain(`${provider.cookieName}.1=`);
      expect(await verify(cookie)).to.deep.equal({ userId });
    }
  });

  it("the session verifier reads a session from one raw cookie", async () => {
    const token = await provider.createToken({ sub: userId });
    expect(await verify(await provider.createCookie(token, { encoding: "raw" }))).to.deep.equal({ userId });
  });

  it("the session verifier accepts a session until the session expires", async () => {
    const exp = Math.floor(Date.now() / 1000) + 600;
    const cookie = await provider.createCookie(await provider.createToken({ sub: userId, exp }));
    expect(await verify(cookie, {}, exp * 1000 - 1)).to.deep.equal({ userId });
    const expiryError = await verify(cookie, {}, exp * 1000).catch((error: unknown) => error);
    expect(expiryError).to.include({ status: 401, code: "session_expired" });
  });

  it("the session verifier refuses a cached session after its expiry, and does not mix up the sessions of two users", async () => {
    const verifySession = createSessionVerifier(createSettings());
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

    for (const [title, createToken] of invalidTokens) {
      it(`the session verifier refuses ${title}`, async () => {
        expect(await readRefusal(await provider.createCookie(await createToken()))).to.equal(
          "401 authentication_required",
        );
      });
    }

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
    const verifySession = createSessionVerifier(createSettings());
    const cookie = await provider.createCookie(await provider.createToken({}, "ES256"));
    const requestCountBefore = provider.countKeyRequests();
    await Promise.all(Array.from({ length: 5 }, () => verifySession(cookie, Date.now())));
    expect(provider.countKeyRequests() - requestCountBefore).to.equal(1);
  });

  it("the session verifier fails with 503 and Retry-After if the public keys cannot be fetched", async () => {
    const cookie = await provider.createCookie(await provider.createToken({}, "ES256"));
    const error = await verify(cookie, { PORTAL_JWKS_URL: "http://127.0.0.1:1/keys" }).catch((error: unknown) => error);
    expect(error).to.include({ status: 503, code: "session_keys_unavailable" });
    expect((error as ApiError).headers).to.have.property("Retry-After");
  });

  it("createSessionVerifier refuses a configuration with neither a secret nor public keys", () => {
    const noKeys = { PORTAL_JWT_SECRET: undefined, PORTAL_JWKS_URL: undefined };
    expect(() => createSessionVerifier(createSettings(noKeys))).to.throw(
      ConfigError,
      /PORTAL_JWT_SECRET or PORTAL_JWKS_URL/,
    );
  });
});
