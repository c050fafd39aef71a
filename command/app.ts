import { createLocalJWKSet } from "jose";
import type Koa from "koa";
import { cacheVerifiedTokens, createTokenVerifier } from "../shared/auth/access-token.ts";
import { type Environment, environment as environments } from "../shared/domain/events/fields.ts";
import { type AppOptions, createApp, type RequestState } from "../shared/http/app.ts";
import { parseJsonBody, parseOptionalJsonBody } from "../shared/http/request-body.ts";
import { limitResponseTime } from "../shared/http/response-timeout.ts";
import { createRouter } from "../shared/http/router.ts";
import { createAuthentication } from "../shared/partner-api/authenticate.ts";
import type { PartnerOperation } from "../shared/partner-api/operations.ts";
import {
  countRefusals,
  limitAddress,
  limitCaller,
  limitResets,
  limitWrongCodes,
} from "../shared/partner-api/rate-limits.ts";
import { createPartnerRouter } from "../shared/partner-api/router.ts";
import { type PartnerWrite, type PartnerWriteId, partnerWrites } from "../shared/partner-api/writes.ts";
import { limitAddressConcurrency } from "../shared/rate-limit/middleware.ts";
import { WEBHOOK_KEYS_PATH } from "../shared/webhooks/asymmetric-signature.ts";
import * as links from "./partner-api/animal-links.ts";
import { authorize } from "./partner-api/authorize.ts";
import { createAppointment } from "./partner-api/create-appointment.ts";
import { mapDomainErrors } from "./partner-api/errors.ts";
import { exchangeToken } from "./partner-api/exchange-token.ts";
import { exposeLogPosition, type WaitForReadModels } from "./partner-api/expose-log-position.ts";
import {
  type PartnerService,
  requireActiveClinic,
  toCommandContext,
  type WriteContext,
  type WriteHandler,
} from "./partner-api/request-context.ts";
import * as sandbox from "./partner-api/sandbox.ts";
import { applyFormStatuses, parseTokenBody } from "./partner-api/token-request.ts";
import { getServerMetadataPath, KEYS_PATH, publishKeys, publishServerMetadata } from "./partner-api/token-signer.ts";
import * as endpoints from "./partner-api/webhook-endpoints.ts";

export interface CommandAppOptions extends AppOptions, PartnerService {
  waitForReadModels: WaitForReadModels;
  /** `iss` claim of access tokens: the public origin of the partner API. */
  tokenIssuer: string;
  /** Brand part of header names, such as `SERVICE` in `X-SERVICE-Clinic-ID`. */
  brand: string;
  /** Time limit for the response to a request, in milliseconds; default: 25,000. */
  responseTimeoutMs?: number;
}

/**
 * Default time limit for a response, in milliseconds. The limit is longer than the 20 s in which a request must arrive,
 * and shorter than usual client timeouts.
 */
export const DEFAULT_RESPONSE_TIMEOUT_MS = 25_000;

/**
 * Creates the Koa application that serves all write operations of the partner API, the public keys for access tokens
 * and the metadata of the authorization servers.
 */
export function createCommandApp(options: CommandAppOptions): Koa<RequestState> {
  const { limiter } = options;
  const app = createApp({ ...options, hasReference: true });
  app.use(createWellKnownRouter(options).routes());
  app.use(limitResponseTime(options.responseTimeoutMs ?? DEFAULT_RESPONSE_TIMEOUT_MS, "event_log_unavailable"));
  app.use(countRefusals(limiter));
  app.use(createWriteRouter(options).routes());
  return app;
}

function createWellKnownRouter({ tokenSigner, tokenIssuer, webhookKeys }: CommandAppOptions) {
  const router = createRouter<RequestState>()
    .use(limitAddressConcurrency())
    .get("jwks", KEYS_PATH, publishKeys(tokenSigner.jwks))
    .get("webhook-keys", WEBHOOK_KEYS_PATH, publishKeys(webhookKeys));
  for (const environment of environments.options) {
    const publish = publishServerMetadata(tokenIssuer, environment);
    router.get("authorization-server", getServerMetadataPath(environment), publish);
  }
  return router;
}

function createWriteRouter(options: CommandAppOptions) {
  const { decide, limiter, brand, tokenSigner, waitForReadModels } = options;
  const verify = cacheVerifiedTokens(createTokenVerifier(createLocalJWKSet(tokenSigner.jwks), options.tokenIssuer));
  const { authenticate } = createAuthentication({ verify, limiter, brand });

  /** Handlers of the operations that need an access token, by id. The spread modules must export only handlers. */
  const handlers: Record<Exclude<PartnerWriteId, "exchangeToken">, WriteHandler> = {
    createPartnerAppointment: createAppointment(),
    ...links,
    ...sandbox,
    ...endpoints,
  };
  /** Limits that apply only to certain operations, by operation id. */
  const limits: Partial<Record<PartnerWriteId, Koa.Middleware>> = {
    linkAnimal: limitWrongCodes(limiter),
    resetSandbox: limitResets(limiter),
  };
  const routes = (Object.keys(handlers) as (keyof typeof handlers)[]).map((id) => {
    const { request, isBodyOptional, refusals, successResponse }: PartnerWrite = partnerWrites[id];
    const respond = async (ctx: WriteContext) => {
      const { logPosition, body } = await handlers[id](options, ctx, toCommandContext(ctx.state));
      ctx.state.logPosition = logPosition;
      ctx.status = successResponse.status;
      ctx.body = { ok: true, ...body };
    };
    const route = (operation: PartnerOperation, environment: Environment): Koa.Middleware[] => [
      authenticate(operation, environment) as Koa.Middleware,
      authorize(operation, decide) as Koa.Middleware,
      limitCaller(limiter),
      exposeLogPosition(brand, waitForReadModels),
      ...("clinic_not_operational" in refusals ? [requireActiveClinic(decide)] : []),
      ...(request ? [isBodyOptional ? parseOptionalJsonBody() : parseJsonBody()] : []),
      ...(limits[id] ? [limits[id]] : []),
      mapDomainErrors(refusals),
      respond as Koa.Middleware,
    ];
    return [id, route];
  });
  return createPartnerRouter({
    exchangeToken: (_, environment) => [
      limitAddress(limiter),
      exposeLogPosition(brand, waitForReadModels),
      applyFormStatuses(),
      parseTokenBody(),
      exchangeToken(options, environment),
    ],
    ...Object.fromEntries(routes),
  });
}
