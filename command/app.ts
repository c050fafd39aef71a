import { createLocalJWKSet } from "jose";
import type Koa from "koa";
import type { Registry } from "prom-client";
import { cacheVerifiedTokens, createTokenVerifier } from "../shared/auth/access-token.ts";
import type { SecretBox } from "../shared/auth/secret-box.ts";
import { type Environment, environment as environments } from "../shared/domain/events/fields.ts";
import type { EventLog } from "../shared/eventstore/log.ts";
import { createApp, type RequestState } from "../shared/http/app.ts";
import type { Readiness } from "../shared/http/health.ts";
import { parseJsonBody, parseOptionalJsonBody } from "../shared/http/request-body.ts";
import { limitResponseTime } from "../shared/http/response-timeout.ts";
import { createRouter } from "../shared/http/router.ts";
import { createAuthentication } from "../shared/partner-api/authenticate.ts";
import type { EndpointWriteId } from "../shared/partner-api/endpoint-writes.ts";
import { partnerOperations, toApplicationOperationId } from "../shared/partner-api/operations.ts";
import {
  countRefusals,
  limitAddress,
  limitCaller,
  limitResets,
  limitWrongCodes,
} from "../shared/partner-api/rate-limits.ts";
import { createPartnerRouter } from "../shared/partner-api/router.ts";
import { type PartnerWriteId, partnerWrites } from "../shared/partner-api/writes.ts";
import { limitAddressConcurrency } from "../shared/rate-limit/concurrency.ts";
import type { RateLimiter } from "../shared/rate-limit/limiter.ts";
import type { Logger } from "../shared/runtime/logger.ts";
import type { DeprecatedPath } from "../shared/runtime/setting-schemas.ts";
import { WEBHOOK_KEYS_PATH, type WebhookKeySet } from "../shared/webhooks/asymmetric-signature.ts";
import type { Decide } from "./handling/aggregate-cache.ts";
import type { AwaitOutbox } from "./handling/outbox.ts";
import type { LinkCodes } from "./operations/link-codes.ts";
import { endAnimalLink, linkAnimal, withdrawSandboxLink } from "./partner-api/animal-links.ts";
import { authorize } from "./partner-api/authorize.ts";
import { createAppointment } from "./partner-api/create-appointment.ts";
import { mapDomainErrors } from "./partner-api/errors.ts";
import { exchangeToken } from "./partner-api/exchange-token.ts";
import { exposeLogPosition, type WaitForReadModels } from "./partner-api/expose-log-position.ts";
import { requireActiveClinic } from "./partner-api/request-context.ts";
import { changeOwnAccess, resetOwnSandbox } from "./partner-api/sandbox.ts";
import { changeSandboxAppointmentStatus, rescheduleSandboxAppointment } from "./partner-api/sandbox-appointments.ts";
import { getServerMetadataPath, KEYS_PATH, publishKeys, publishServerMetadata } from "./partner-api/server-metadata.ts";
import { applyFormStatuses, parseTokenBody } from "./partner-api/token-request.ts";
import type { TokenSigner } from "./partner-api/token-signer.ts";
import {
  createWebhookEndpoint,
  disableWebhookEndpoint,
  enableWebhookEndpoint,
  revokeWebhookEndpoint,
  rotateWebhookSecret,
  testWebhookEndpoint,
  updateWebhookEndpoint,
} from "./partner-api/webhook-endpoints.ts";
import { replayWebhookDeliveries, replayWebhookDelivery } from "./partner-api/webhook-replays.ts";

export interface CommandAppOptions {
  logger: Logger;
  log: EventLog;
  /** Runs decisions on the aggregates that grant access; see {@link Decide}. */
  decide: Decide;
  checkReadiness: Readiness;
  limiter: RateLimiter;
  waitForReadModels: WaitForReadModels;
  awaitOutbox: AwaitOutbox;
  tokenSigner: TokenSigner;
  /** `iss` claim of access tokens: the public origin of the partner API. */
  tokenIssuer: string;
  secretBox: SecretBox;
  linkCodes: LinkCodes;
  webhookKeys: WebhookKeySet;
  /** If true, webhook endpoints may have loopback addresses. */
  allowsLoopback: boolean;
  /** DNS servers that look up the hosts of webhook endpoints, as `address:port`. If absent, those of the machine. */
  dnsServers?: readonly string[] | undefined;
  /** Brand part of header names, such as `SERVICE` in `X-SERVICE-Clinic-ID`. */
  brand: string;
  retiredPaths: readonly string[];
  deprecatedPaths?: readonly DeprecatedPath[] | undefined;
  isProxyTrusted: boolean;
  registry?: Registry;
  clock?: () => number;
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
  const app = createApp(options);
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

  /** Returns the middlewares of an operation that needs an access token, in the order in which they run. */
  const defineOperation =
    (operationId: Exclude<PartnerWriteId, "exchangeToken">, checks: Koa.Middleware[], handler: Koa.Middleware) =>
    (environment: Environment): Koa.Middleware[] => [
      authenticate(partnerOperations[operationId], environment),
      authorize(partnerOperations[operationId], decide, brand),
      limitCaller(limiter),
      exposeLogPosition(brand, waitForReadModels),
      ...checks,
      mapDomainErrors(partnerWrites[operationId].refusals),
      handler,
    ];

  const requireActive = requireActiveClinic(decide);
  /** Checks and handler of each operation. Application and clinics have the same operations. */
  const endpointWrites: Record<EndpointWriteId, [checks: Koa.Middleware[], handler: Koa.Middleware]> = {
    createWebhookEndpoint: [[requireActive, parseJsonBody()], createWebhookEndpoint(options)],
    // If the request names a clinic, the handler requires an active clinic and parses the body.
    updateWebhookEndpoint: [[], updateWebhookEndpoint(options)],
    disableWebhookEndpoint: [[], disableWebhookEndpoint(options)],
    enableWebhookEndpoint: [[requireActive, parseOptionalJsonBody()], enableWebhookEndpoint(options)],
    revokeWebhookEndpoint: [[], revokeWebhookEndpoint(options)],
    rotateWebhookSecret: [[], rotateWebhookSecret(options)],
    testWebhookEndpoint: [[], testWebhookEndpoint(options)],
    replayWebhookDelivery: [[requireActive], replayWebhookDelivery(options)],
    replayWebhookDeliveries: [[requireActive, parseJsonBody()], replayWebhookDeliveries(options)],
  };

  return createPartnerRouter({
    exchangeToken: (environment) => [
      limitAddress(limiter),
      exposeLogPosition(brand, waitForReadModels),
      applyFormStatuses(),
      parseTokenBody(),
      exchangeToken(options, environment),
    ],
    // The handler requires an active clinic and parses the body; see `createBodyDecider`.
    createPartnerAppointment: defineOperation("createPartnerAppointment", [], createAppointment(options)),
    changeSandboxAppointmentStatus: defineOperation(
      "changeSandboxAppointmentStatus",
      [requireActive, parseJsonBody()],
      changeSandboxAppointmentStatus(options),
    ),
    rescheduleSandboxAppointment: defineOperation(
      "rescheduleSandboxAppointment",
      [requireActive, parseJsonBody()],
      rescheduleSandboxAppointment(options),
    ),
    linkAnimal: defineOperation(
      "linkAnimal",
      [requireActive, parseJsonBody(), limitWrongCodes(limiter)],
      linkAnimal(options),
    ),
    endAnimalLink: defineOperation("endAnimalLink", [], endAnimalLink(options)),
    withdrawSandboxLink: defineOperation("withdrawSandboxLink", [parseJsonBody()], withdrawSandboxLink(options)),
    changeSandboxAccess: defineOperation(
      "changeSandboxAccess",
      [requireActive, parseJsonBody()],
      changeOwnAccess(options),
    ),
    resetSandbox: defineOperation("resetSandbox", [limitResets(limiter)], resetOwnSandbox(options)),
    ...Object.fromEntries(
      Object.entries(endpointWrites).flatMap(([id, [checks, handler]]) => {
        const applicationId = toApplicationOperationId(id as EndpointWriteId);
        const applicationChecks = id === "updateWebhookEndpoint" ? [parseJsonBody()] : checks;
        return [
          [id, defineOperation(id as EndpointWriteId, checks, handler)],
          [applicationId, defineOperation(applicationId, applicationChecks, handler)],
        ];
      }),
    ),
  });
}
