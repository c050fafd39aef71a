import { randomUUID, timingSafeEqual } from "node:crypto";
import type Koa from "koa";
import { TOKEN_LIFETIME_SECONDS } from "../../shared/auth/access-token.ts";
import type { Environment } from "../../shared/domain/events/fields.ts";
import { type Scope, scope } from "../../shared/domain/events/partner.ts";
import { type Application, applicationAggregate, type Credential } from "../../shared/domain/partner/application.ts";
import type { RequestState } from "../../shared/http/app.ts";
import { toCallerAddress } from "../../shared/http/request.ts";
import { MAX_EXCHANGES_PER_MINUTE } from "../../shared/partner-api/rate-limits.ts";
import { enforceRateLimit } from "../../shared/rate-limit/middleware.ts";
import type { LoadAggregate } from "../handling/aggregate-cache.ts";
import { hashSecret } from "../operations/credentials.ts";
import type { LogPositionState } from "./expose-log-position.ts";
import type { PartnerService } from "./request-context.ts";
import { createTokenError, readTokenRequest, type TokenRequest } from "./token-request.ts";

/**
 * Dummy credential for applications that are unknown or have no credential, so that the response time does not reveal
 * which ids exist.
 */
const DUMMY_CREDENTIAL: Credential = { id: "", secretHash: "0".repeat(64) };

/** POST /oauth/token: exchanges client credentials for an access token that is valid for 900 s. */
export function exchangeToken(
  { decide, tokenSigner, limiter }: PartnerService,
  environment: Environment,
): Koa.Middleware<RequestState & LogPositionState> {
  return async (ctx) => {
    const request = readTokenRequest(ctx, environment);
    const key = `token ${environment} ${request.clientId ?? "unknown"} ${toCallerAddress(ctx.ip)}`;
    await enforceRateLimit(limiter, ctx, key, MAX_EXCHANGES_PER_MINUTE);
    const { application, credential, statePosition } = await decide((load) => authenticate(load, request, environment));
    ctx.state.logPosition = statePosition;
    const scopes = selectScopes(request.scope, application.scopes);
    const accessToken = { applicationId: application.id, credentialId: credential.id, environment, scopes };
    ctx.body = {
      access_token: await tokenSigner.sign(accessToken, randomUUID(), ctx.state.now),
      token_type: "Bearer",
      expires_in: TOKEN_LIFETIME_SECONDS,
      scope: scopes.join(" "),
    };
  };
}

/**
 * Finds the application and the credential of a request. Compares the secret with all active credentials, or with a
 * dummy if there is no active credential, so that neither the response nor its time reveals which ids exist.
 *
 * @throws {ApiError} 401 `invalid_client`
 */
async function authenticate(
  load: LoadAggregate,
  request: TokenRequest,
  environment: Environment,
): Promise<{ application: Application; credential: Credential; statePosition: bigint | undefined }> {
  const { clientId } = request;
  const loadedApplication = clientId ? await load(applicationAggregate, clientId) : undefined;
  const application = loadedApplication?.state;
  const secretHash = Buffer.from(hashSecret(request.clientSecret), "hex");
  const candidates = application?.credentials.length ? application.credentials : [DUMMY_CREDENTIAL];
  let credential: Credential | undefined;
  for (const candidate of candidates) {
    if (timingSafeEqual(secretHash, Buffer.from(candidate.secretHash, "hex"))) credential = candidate;
  }
  const isRightEnvironment = request.environment === environment && application?.environment === environment;
  if (!credential || !application || !isRightEnvironment || application.revoked)
    throw createTokenError("invalid_client");
  return { application, credential, statePosition: loadedApplication?.position };
}

/**
 * Selects the scopes of a token: the requested scopes that are granted, or all granted scopes if none is requested.
 *
 * @throws {ApiError} 401 `invalid_scope` for an unknown scope, or if no requested scope is granted
 */
function selectScopes(requestedScope: string | undefined, grantedScopes: readonly Scope[]): Scope[] {
  if (requestedScope === undefined) return [...grantedScopes];
  const requestedNames = new Set(requestedScope.trim().split(/ +/));
  // A scope can be any text, so the check of thousands of names ends at the first unknown one.
  if (![...requestedNames].every((name) => scope.safeParse(name).success)) throw createTokenError("invalid_scope");
  const selectedScopes = grantedScopes.filter((name) => requestedNames.has(name));
  if (selectedScopes.length === 0) throw createTokenError("invalid_scope");
  return selectedScopes;
}
