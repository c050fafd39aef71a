import { createSecretKey, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createServerClient } from "@supabase/ssr";
import { exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from "jose";
import { WebSocket } from "undici";
import { listenOnLoopback } from "./loopback.ts";

type Algorithm = "HS256" | "ES256" | "RS256";

/**
 * A fake identity provider for the portal. It supports sign-in, publishes its public keys, and creates session cookies.
 */
export interface IdentityProvider {
  issuer: string;
  jwksUrl: string;
  /** Secret of HS256 tokens. */
  secret: string;
  cookieName: string;
  /** Adds a public key to the published keys. */
  publishKey(key: JWK): void;
  countKeyRequests(): number;
  /** Creates a user's access token. @param claims replace claims of a valid token; `undefined` removes a claim */
  createToken(claims?: JWTPayload & { role?: unknown }, algorithm?: Algorithm): Promise<string>;
  /** Returns the Cookie header that a browser sends after signing in with @supabase/ssr. */
  createCookie(token: string, options?: { encoding?: "base64url" | "raw"; metadata?: unknown }): Promise<string>;
  /** Returns the Cookie header of a user's valid session. */
  createSessionCookie(userId: string): Promise<string>;
  close(): Promise<void>;
}

const cookieName = "sb-test-auth-token";

export async function startIdentityProvider(): Promise<IdentityProvider> {
  const secret = randomUUID() + randomUUID();
  const keyPairs = { ES256: await generateKeyPair("ES256"), RS256: await generateKeyPair("RS256") };
  const keys: JWK[] = await Promise.all(
    Object.entries(keyPairs).map(async ([alg, keyPair]) => ({
      ...(await exportJWK(keyPair.publicKey)),
      kid: alg,
      alg,
    })),
  );
  const sessions = new Map<string, unknown>();
  let keyRequestCount = 0;
  const server = createServer((request, response) => {
    response.setHeader("Content-Type", "application/json");
    if (request.url?.endsWith("/jwks.json")) {
      keyRequestCount += 1;
      response.end(JSON.stringify({ keys }));
      return;
    }
    let body = "";
    request.on("data", (chunk) => {
      body += chunk;
    });
    request.on("end", () => response.end(JSON.stringify(sessions.get(JSON.parse(body).email))));
  });
  const { host, close } = await listenOnLoopback(server);
  const url = `http://${host}`;
  const issuer = `${url}/auth/v1`;

  const provider: IdentityProvider = {
    issuer,
    jwksUrl: `${issuer}/.well-known/jwks.json`,
    secret,
    cookieName,
    publishKey: (key) => keys.push(key),
    countKeyRequests: () => keyRequestCount,
    createToken(claims = {}, algorithm = "HS256") {
      const now = Math.floor(Date.now() / 1000);
      const key = algorithm === "HS256" ? createSecretKey(Buffer.from(secret)) : keyPairs[algorithm].privateKey;
      return new SignJWT({
        iss: issuer,
        aud: "authenticated",
        sub: randomUUID(),
        role: "authenticated",
        iat: now,
        exp: now + 3_600,
        ...claims,
      })
        .setProtectedHeader({ alg: algorithm, kid: algorithm, typ: "JWT" })
        .sign(key);
    },
    async createCookie(token, { encoding = "base64url", metadata = {} } = {}) {
      const email = `${randomUUID()}@example.com`;
      const user = { id: randomUUID(), aud: "authenticated", email, user_metadata: metadata };
      sessions.set(email, {
        access_token: token,
        refresh_token: randomUUID(),
        token_type: "bearer",
        expires_in: 3_600,
        user,
      });
      return signIn(url, email, encoding);
    },
    async createSessionCookie(userId) {
      return provider.createCookie(await provider.createToken({ sub: userId }));
    },
    close,
  };
  return provider;
}

/** Signs in with @supabase/ssr, like the portal, and returns the Cookie header. */
async function signIn(url: string, email: string, cookieEncoding: "base64url" | "raw"): Promise<string> {
  const cookieJar = new Map<string, string>();
  const client = createServerClient(url, "anon-key", {
    cookieEncoding,
    // The library requires a WebSocket, but never connects to it.
    realtime: { transport: WebSocket as never },
    cookieOptions: { name: cookieName },
    cookies: {
      getAll: () => [...cookieJar].map(([name, value]) => ({ name, value })),
      setAll: (cookies) => {
        for (const { name, value } of cookies) cookieJar.set(name, value);
      },
    },
  });
  const { error } = await client.auth.signInWithPassword({ email, password: "secret" });
  if (error) throw error;
  return [...cookieJar].map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("; ");
}
