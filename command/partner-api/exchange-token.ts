import { randomUUID, timingSafeEqual } from "node:crypto";
import type Koa from "koa";
import { z } from "zod";
import { TOKEN_LIFETIME_SECONDS } from "../../shared/auth/access-token.ts";
import { type Environment, uuid } from "../../shared/domain/events/fields.ts";
import { type Scope, scope } from "../../shared/domain/events/partner.ts";
import {
  type Application,
  applicationAggregate,
  type Credential,
} from "../../shared/domain/partner/application.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import type { RequestState } from "../../shared/http/app.ts";
import { callerAddress } from "../../shared/http/caller-address.ts";
import { tokenRequest } from "../../shared/partner-api/request-bodies.ts";
import type { RateLimiter } from "../../shared/rate-limit/limiter.ts";
import { enforceRateLimit } from "../../shared/rate-limit/middleware.ts";
import { load } from "../handling/handle.ts";
import { hashClientSecret } from "../operations/application-operations.ts";
import type { LogPositionState } from "./expose-log-position.ts";
import type { TokenIssuer } from "./token-issuer.ts";

/** Maximum number of exchanges per minute, by client id and address. */
const EXCHANGES_PER_MINUTE = 30;

/** Compared if an application has no credential, so that the response time does not reveal which ids exist. */
const NO_CREDENTIAL: Credential = { id: "", secretHash: "0".repeat(64) };

/**
 * POST /oauth/token: exchanges client credentials for an access token of 900 s. Every problem of a JSON request is
 * 401.
 */
export function exchangeToken(
  dependencies: { log: EventLog; issuer: TokenIssuer; limiter: RateLimiter },
  environment: Environment,
): Koa.Middleware<RequestState & LogPositionState> {
  return async (ctx) => {
    const request = readTokenRequest(ctx.request.body);
    const key = `token ${environment} ${request.clientId ?? "unknown"} ${callerAddress(ctx.ip)}`;
    await enforceRateLimit(dependencies.limiter, ctx, key, EXCHANGES_PER_MINUTE);
    const { application, credential, seen } = await authenticate(dependencies.log, request, environment);
    ctx.state.logPosition = seen;
    const scopes = grantedScopes(request.scope, application.scopes);
    const token = { applicationId: application.id, credentialId: credential.id, environment, scopes };
    ctx.body = {
      access_token: await dependencies.issuer.sign(token, randomUUID(), ctx.state.now),
      token_type: "Bearer",
      expires_in: TOKEN_LIFETIME_SECONDS,
      scope: scopes.join(" "),
    };
  };
}

/**
 * Finds the application and the credential of a request. All active credentials are compared, or a dummy if there is
 * none, so that neither time nor answer reveals which ids exist.
 */
async function authenticate(
  log: EventLog,
  request: TokenRequest,
  environment: Environment,
): Promise<{ application: Application; credential: Credential; seen: bigint | undefined }> {
  const { clientId } = request;
  const loaded = clientId ? await load(log, applicationAggregate, clientId) : undefined;
  const application = loaded?.state;
  const given = Buffer.from(hashClientSecret(request.clientSecret), "hex");
  const candidates = application?.credentials.length ? application.credentials : [NO_CREDENTIAL];
  let credential: Credential | undefined;
  for (const candidate of candidates) {
    if (timingSafeEqual(given, Buffer.from(candidate.secretHash, "hex"))) credential = candidate;
  }
  const rightPlace = request.environment === environment && application?.environment === environment;
  if (!credential || !application || !rightPlace || application.revoked) throw tokenRefusal("invalid_client");
  return { application, credential, seen: loaded?.events.at(-1)?.position };
}

/** A well-formed TokenRequest, not yet authenticated. */
export interface TokenRequest {
  /** Undefined if the text is not a UUID. */
  clientId: string | undefined;
  clientSecret: string;
  environment: Environment;
  /** Undefined to request all granted scopes. */
  scope: string | undefined;
}

/** Creates an error of the token operation: always 401, with a code of RFC 6749, section 5.2. */
export function tokenRefusal(
  code: "invalid_request" | "invalid_client" | "unsupported_grant_type" | "invalid_scope",
): ApiError {
  return new ApiError(401, code);
}

/** @throws {ApiError} 401 `invalid_request` or `unsupported_grant_type` */
export function readTokenRequest(body: unknown): TokenRequest {
  const { success, data } = tokenRequest.safeParse(body);
  if (!success) throw tokenRefusal("invalid_request");
  if (data.grant_type !== "client_credentials") throw tokenRefusal("unsupported_grant_type");
  return {
    clientId: uuid.safeParse(data.client_id).data,
    clientSecret: data.client_secret,
    environment: data.environment,
    // A parameter without a value counts as omitted (RFC 6749, section 3.2).
    scope: data.scope?.trim() ? data.scope : undefined,
  };
}

/**
 * Returns the scopes of a token: the requested scopes that are granted, or all granted scopes if none is requested.
 *
 * @throws {ApiError} 401 `invalid_scope` for an unknown scope, or if no requested scope is granted
 */
export function grantedScopes(asked: string | undefined, grant: readonly Scope[]): Scope[] {
  if (asked === undefined) return [...grant];
  const names = z.array(scope).safeParse(asked.trim().split(/ +/));
  const granted = grant.filter((name) => names.data?.includes(name));
  if (granted.length === 0) throw tokenRefusal("invalid_scope");
  return granted;
}
