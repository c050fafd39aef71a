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
import { type PartnerWriteId, partnerWrites } from "../shared/partner-api/writes.ts";
import { limitAddressConcurrency } from "../shared/rate-limit/middleware.ts";
import { WEBHOOK_KEYS_PATH } from "../shared/webhooks/asymmetric-signature.ts";
import { endAnimalLink, linkAnimal, withdrawSandboxLink } from "./partner-api/animal-links.ts";
import { authorize } from "./partner-api/authorize.ts";
import { createAppointment } from "./partner-api/create-appointment.ts";
import { mapDomainErrors } from "./partner-api/errors.ts";
import { exchangeToken } from "./partner-api/exchange-token.ts";
import { exposeLogPosition, type WaitForReadModels } from "./partner-api/expose-log-position.ts";
import { type PartnerService, requireActiveClinic } from "./partner-api/request-context.ts";
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

  const requireActive = requireActiveClinic(decide);
  const parseBody = parseJsonBody();
  /** Checks and handler of each operation that needs an access token. */
  const handlers: Record<Exclude<PartnerWriteId, "exchangeToken">, [...checks: Koa.Middleware[], Koa.Middleware]> = {
    // The handler requires an active clinic and parses the body; see `createBodyDecider`.
    createPartnerAppointment: [createAppointment(options)],
    changeSandboxAppointmentStatus: [requireActive, parseBody, sandbox.changeSandboxAppointmentStatus(options)],
    rescheduleSandboxAppointment: [requireActive, parseBody, sandbox.rescheduleSandboxAppointment(options)],
    linkAnimal: [requireActive, parseBody, limitWrongCodes(limiter), linkAnimal(options)],
    endAnimalLink: [endAnimalLink(options)],
    withdrawSandboxLink: [parseBody, withdrawSandboxLink(options)],
    changeSandboxAccess: [requireActive, parseBody, sandbox.changeOwnAccess(options)],
    resetSandbox: [limitResets(limiter), sandbox.resetOwnSandbox(options)],
    createWebhookEndpoint: [requireActive, parseBody, endpoints.createWebhookEndpoint(options)],
    updateWebhookEndpoint: [endpoints.updateWebhookEndpoint(options)],
    disableWebhookEndpoint: [endpoints.disableWebhookEndpoint(options)],
    enableWebhookEndpoint: [requireActive, parseOptionalJsonBody(), endpoints.enableWebhookEndpoint(options)],
    revokeWebhookEndpoint: [endpoints.revokeWebhookEndpoint(options)],
    rotateWebhookSecret: [endpoints.rotateWebhookSecret(options)],
    testWebhookEndpoint: [endpoints.testWebhookEndpoint(options)],
    replayWebhookDelivery: [requireActive, endpoints.replayWebhookDelivery(options)],
    replayWebhookDeliveries: [requireActive, parseBody, endpoints.replayWebhookDeliveries(options)],
  };
  const routes = Object.entries(handlers).map(([id, middlewares]) => [
    id,
    (operation: PartnerOperation, environment: Environment): Koa.Middleware[] => [
      authenticate(operation, environment) as Koa.Middleware,
      authorize(operation, decide) as Koa.Middleware,
      limitCaller(limiter),
      exposeLogPosition(brand, waitForReadModels),
      ...middlewares.slice(0, -1),
      mapDomainErrors(partnerWrites[id as keyof typeof handlers].refusals),
      ...middlewares.slice(-1),
    ],
  ]);
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
