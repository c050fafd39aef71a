import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { startQueryApi } from "../../query-api/start.ts";
import type { Environment } from "../../shared/domain/events/fields.ts";
import { type Scope, scopes } from "../../shared/domain/events/partner.ts";
import { listenOnLoopback } from "./loopback.ts";
import { requireNoSniffing } from "./no-sniffing.ts";
import { type IdentityProvider, startIdentityProvider } from "./portal.ts";
import { createPortalChecker } from "./portal-document.ts";
import { createReadModelDatabase, type GivenEvent, type ReadModelDatabase } from "./read-models.ts";
import { autoStop, releaseLater, useResource } from "./resources.ts";

export interface PortalResponse {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: each test checks the body that it expects, and the schema is checked separately
  body: any;
}

/** A query API service with its own database, identity provider and token keys. */
export interface TestQueryApi {
  url: string;
  database: ReadModelDatabase;
  provider: IdentityProvider;
  given(...events: GivenEvent[]): Promise<void>;
  /**
   * Sends a GET request, as a portal user if `userId` is given. Fails if the response differs from the OpenAPI
   * document.
   */
  get(path: string, userId?: string): Promise<PortalResponse>;
  /** Reads from the portal as a user. Fails if the status is not 200. @returns the body */
  read(path: string, userId: string): Promise<PortalResponse["body"]>;
  createPartnerToken(claims: PartnerClaims): Promise<string>;
  stop(): Promise<void>;
}

export interface PartnerClaims {
  applicationId: string;
  credentialId: string;
  environment?: Environment;
  scopes?: readonly Scope[];
}

/** @param configure returns settings that override the defaults */
export async function startTestQueryApi(
  configure: (database: ReadModelDatabase) => Promise<Record<string, string>> = async () => ({}),
): Promise<TestQueryApi> {
  const [database, provider, tokenServer] = await Promise.all([
    createReadModelDatabase(),
    startIdentityProvider(),
    startTokenKeyServer(),
  ]);
  const settings = {
    PORT: "0",
    LOG_LEVEL: "fatal",
    DATABASE_URL: database.urls.query,
    OPERATOR_NAME: "Test Operator",
    PORTAL_COOKIE_NAME: provider.cookieName,
    PORTAL_JWT_ISSUER: provider.issuer,
    PORTAL_JWT_SECRET: provider.secret,
    PORTAL_JWKS_URL: provider.jwksUrl,
    TOKEN_ISSUER: tokenServer.issuer,
    TOKEN_JWKS_URL: tokenServer.jwksUrl,
    ...(await configure(database)),
  };
  const service = await autoStop(startQueryApi(settings));
  const responseChecker = createPortalChecker(settings.OPERATOR_NAME);
  const cookiePromises = new Map<string, Promise<string>>();
  const api: TestQueryApi = {
    url: service.url,
    database,
    provider,
    given: database.given,
    async get(path, userId) {
      const cookiePromise = userId && (cookiePromises.get(userId) ?? provider.createSessionCookie(userId));
      if (cookiePromise) cookiePromises.set(userId, cookiePromise);
      const response = await request(service.url + path, cookiePromise ? { Cookie: await cookiePromise } : {});
      const operation = responseChecker.findOperation("GET", new URL(path, service.url).pathname);
      if (operation) responseChecker.checkResponse(operation, response);
      return response;
    },
    async read(path, userId) {
      const { status, body } = await api.get(path, userId);
      if (status !== 200) throw new Error(`${path} returned ${status}: ${JSON.stringify(body)}`);
      return body;
    },
    createPartnerToken: tokenServer.signToken,
    stop: releaseLater(async () => {
      await service.stop();
      await Promise.all([database.close(), provider.close(), tokenServer.close()]);
    }),
  };
  return api;
}

/** Sends a request and parses the JSON response. */
export async function request(url: string, headers: Record<string, string>): Promise<PortalResponse> {
  const response = await fetch(url, { headers });
  requireNoSniffing(response);
  return { status: response.status, headers: response.headers, body: await response.json() };
}

/** Starts a server that publishes token keys. It also signs tokens, like the command service. */
async function startTokenKeyServer() {
  const { publicKey, privateKey } = await generateKeyPair("EdDSA");
  const keys = [{ ...(await exportJWK(publicKey)), kid: "one", alg: "EdDSA" }];
  const server = createServer((_, response) => {
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify({ keys }));
  });
  const { host, close } = await listenOnLoopback(server);
  const issuer = `http://${host}`;
  return {
    issuer,
    jwksUrl: `${issuer}/.well-known/jwks.json`,
    signToken({
      applicationId,
      credentialId,
      environment = "production",
      scopes: grantedScopes = scopes,
    }: PartnerClaims) {
      return new SignJWT({
        client_id: applicationId,
        credential_id: credentialId,
        environment,
        scope: grantedScopes.join(" "),
      })
        .setProtectedHeader({ alg: "EdDSA", typ: "at+jwt", kid: "one" })
        .setIssuer(issuer)
        .setSubject(applicationId)
        .setAudience(`${issuer}/${environment}/v1`)
        .setIssuedAt()
        .setJti(randomUUID())
        .setExpirationTime("900s")
        .sign(privateKey);
    },
    close,
  };
}

/** Starts a query API before a test suite. The returned object is empty until the `before` hook has run. */
export const setUpQueryApi = (): TestQueryApi => useResource(startTestQueryApi);
