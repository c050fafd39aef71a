import { createLocalJWKSet } from "jose";
import type Koa from "koa";
import { createTokenVerifier } from "../shared/auth/access-token.ts";
import type { SecretBox } from "../shared/auth/secret-box.ts";
import type { Environment } from "../shared/domain/events/fields.ts";
import type { EventLog } from "../shared/eventstore/log.ts";
import { createApp, type RequestState } from "../shared/http/app.ts";
import type { Readiness } from "../shared/http/health.ts";
import { parseJsonBody } from "../shared/http/json-body.ts";
import { limitResponseTime } from "../shared/http/response-timeout.ts";
import { createRouter } from "../shared/http/router.ts";
import { partnerAccess } from "../shared/partner-api/access.ts";
import { type PartnerOperationId, partnerOperations } from "../shared/partner-api/operations.ts";
import {
  countRefusals,
  limitAddress,
  limitInstallation,
  limitResets,
} from "../shared/partner-api/rate-limits.ts";
import { createPartnerRouter } from "../shared/partner-api/router.ts";
import { partnerWrites } from "../shared/partner-api/writes.ts";
import type { RateLimiter } from "../shared/rate-limit/limiter.ts";
import type { Logger } from "../shared/runtime/logger.ts";
import { createAppointment } from "./partner-api/create-appointment.ts";
import { createWebhookEndpoint } from "./partner-api/create-webhook-endpoint.ts";
import { mapDomainErrors } from "./partner-api/errors.ts";
import { exchangeToken } from "./partner-api/exchange-token.ts";
import { type AwaitReads, exposeLogPosition } from "./partner-api/expose-log-position.ts";
import { findAccessIn } from "./partner-api/find-access.ts";
import { replayWebhookDelivery } from "./partner-api/replay-webhook-delivery.ts";
import { loadClinic, requireOperationalClinic } from "./partner-api/request-context.ts";
import { resetOwnSandbox } from "./partner-api/reset-own-sandbox.ts";
import { revokeWebhookEndpoint } from "./partner-api/revoke-webhook-endpoint.ts";
import { rotateWebhookSecret } from "./partner-api/rotate-webhook-secret.ts";
import { testWebhookEndpoint } from "./partner-api/test-webhook-endpoint.ts";
import { publishKeys, type TokenIssuer } from "./partner-api/token-issuer.ts";

export interface CommandAppOptions {
  logger: Logger;
  log: EventLog;
  readiness: Readiness;
  limiter: RateLimiter;
  awaitReads: AwaitReads;
  issuer: TokenIssuer;
  /** Issuer of the access tokens: the public origin of the partner API. */
  tokenIssuer: string;
  secretBox: SecretBox;
  /** Whether webhooks may be sent to the loopback interface. */
  allowLoopback: boolean;
  /** The brand segment of the header names. */
  brand: string;
  retiredPaths: readonly string[];
  trustProxy: boolean;
  clock?: () => number;
  /** Time limit for the answer to a request. Milliseconds. */
  responseTimeoutMs?: number;
}

/**
 * Time limit for an answer: longer than a request may take to arrive (20 s), shorter than usual client timeouts.
 * Milliseconds.
 */
const ANSWER_TIMEOUT_MS = 25_000;

/** Creates the command application: all write operations of the partner API, and the public keys of its tokens. */
export function createCommandApp(options: CommandAppOptions): Koa<RequestState> {
  const { limiter, issuer } = options;
  const keyRouter = createRouter<RequestState>().get("/.well-known/jwks.json", publishKeys(issuer.jwks));
  const app = createApp(options);
  app.use(keyRouter.routes());
  app.use(limitResponseTime(options.responseTimeoutMs ?? ANSWER_TIMEOUT_MS, "event_log_unavailable"));
  app.use(countRefusals(limiter));
  app.use(partnerRouter(options).routes());
  return app;
}

/** Lists the middlewares of each operation, in order. */
function partnerRouter(options: CommandAppOptions) {
  const { log, limiter, brand, issuer, awaitReads } = options;
  const verify = createTokenVerifier(createLocalJWKSet(issuer.jwks), options.tokenIssuer);
  const findAccess = findAccessIn(log);

  /** Middlewares that authorize every operation except the token exchange, in order. */
  const authorize = (operationId: PartnerOperationId, environment: Environment): Koa.Middleware[] => [
    partnerAccess(partnerOperations[operationId], environment, { verify, findAccess, brand }),
    limitInstallation(limiter),
    loadClinic(log),
    exposeLogPosition(brand, awaitReads),
  ];

  return createPartnerRouter({
    exchangeToken: (environment) => [
      limitAddress(limiter),
      exposeLogPosition(brand, awaitReads),
      parseJsonBody(),
      exchangeToken(options, environment),
    ],
    createPartnerAppointment: (environment) => [
      ...authorize("createPartnerAppointment", environment),
      requireOperationalClinic(),
      parseJsonBody(),
      mapDomainErrors(partnerWrites.createPartnerAppointment.refusals),
      createAppointment(options),
    ],
    resetSandbox: (environment) => [
      ...authorize("resetSandbox", environment),
      limitResets(limiter),
      resetOwnSandbox(options),
    ],
    createWebhookEndpoint: (environment) => [
      ...authorize("createWebhookEndpoint", environment),
      requireOperationalClinic(),
      parseJsonBody(),
      mapDomainErrors(partnerWrites.createWebhookEndpoint.refusals),
      createWebhookEndpoint(options),
    ],
    revokeWebhookEndpoint: (environment) => [
      ...authorize("revokeWebhookEndpoint", environment),
      mapDomainErrors(partnerWrites.revokeWebhookEndpoint.refusals),
      revokeWebhookEndpoint(options),
    ],
    rotateWebhookSecret: (environment) => [
      ...authorize("rotateWebhookSecret", environment),
      mapDomainErrors(partnerWrites.rotateWebhookSecret.refusals),
      rotateWebhookSecret(options),
    ],
    testWebhookEndpoint: (environment) => [
      ...authorize("testWebhookEndpoint", environment),
      mapDomainErrors(partnerWrites.testWebhookEndpoint.refusals),
      testWebhookEndpoint(options),
    ],
    replayWebhookDelivery: (environment) => [
      ...authorize("replayWebhookDelivery", environment),
      requireOperationalClinic(),
      mapDomainErrors(partnerWrites.replayWebhookDelivery.refusals),
      replayWebhookDelivery(options),
    ],
  });
}
