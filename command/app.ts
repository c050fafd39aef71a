import { createLocalJWKSet } from "jose";
import type Koa from "koa";
import { createTokenVerifier } from "../shared/auth/access-token.ts";
import type { SecretBox } from "../shared/auth/secret-box.ts";
import type { Environment } from "../shared/domain/events/fields.ts";
import type { EventLog } from "../shared/eventstore/log.ts";
import { answerWithin } from "../shared/http/answer-timeout.ts";
import { createApp, type RequestState } from "../shared/http/app.ts";
import type { Readiness } from "../shared/http/health.ts";
import { jsonBody } from "../shared/http/json-body.ts";
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
import { domainAnswers } from "./partner-api/errors.ts";
import { exchangeToken } from "./partner-api/exchange-token.ts";
import { type AwaitReads, tellPosition } from "./partner-api/expose-log-position.ts";
import { findAccessIn } from "./partner-api/find-access.ts";
import { replayWebhookDelivery } from "./partner-api/replay-webhook-delivery.ts";
import { clinicOfRequest, operationalClinic } from "./partner-api/request-context.ts";
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
  /** Of the access tokens: the partner API's public origin. */
  tokenIssuer: string;
  secretBox: SecretBox;
  /** Whether webhooks may go to this machine. */
  allowLoopback: boolean;
  /** The brand segment of the header names. */
  brand: string;
  retiredPaths: readonly string[];
  trustProxy: boolean;
  clock?: () => number;
  /** Every request is answered within this. Milliseconds. */
  answerWithin?: number;
}

/** Longer than a request may take to arrive (20 s), and less than clients usually wait. Milliseconds. */
const ANSWER_WITHIN = 25_000;

/** The whole application: every operation of the partner API that changes something, and the keys of its tokens. */
export function createCommandApp(options: CommandAppOptions): Koa<RequestState> {
  const { limiter, issuer } = options;
  const keyRouter = createRouter<RequestState>().get("/.well-known/jwks.json", publishKeys(issuer.jwks));
  const app = createApp(options);
  app.use(keyRouter.routes());
  app.use(answerWithin(options.answerWithin ?? ANSWER_WITHIN, "event_log_unavailable"));
  app.use(countRefusals(limiter));
  app.use(partnerRouter(options).routes());
  return app;
}

/** The middlewares of each operation, in order. */
function partnerRouter(options: CommandAppOptions) {
  const { log, limiter, brand, issuer, awaitReads } = options;
  const verify = createTokenVerifier(createLocalJWKSet(issuer.jwks), options.tokenIssuer);
  const findAccess = findAccessIn(log);

  /** What every operation but the token's asks of a request, in this order. */
  const admit = (operationId: PartnerOperationId, environment: Environment): Koa.Middleware[] => [
    partnerAccess(partnerOperations[operationId], environment, { verify, findAccess, brand }),
    limitInstallation(limiter),
    clinicOfRequest(log),
    tellPosition(brand, awaitReads),
  ];

  return createPartnerRouter({
    exchangeToken: (environment) => [
      limitAddress(limiter),
      tellPosition(brand, awaitReads),
      jsonBody(),
      exchangeToken(options, environment),
    ],
    createPartnerAppointment: (environment) => [
      ...admit("createPartnerAppointment", environment),
      operationalClinic(),
      jsonBody(),
      domainAnswers(partnerWrites.createPartnerAppointment.refusals),
      createAppointment(options),
    ],
    resetSandbox: (environment) => [
      ...admit("resetSandbox", environment),
      limitResets(limiter),
      resetOwnSandbox(options),
    ],
    createWebhookEndpoint: (environment) => [
      ...admit("createWebhookEndpoint", environment),
      operationalClinic(),
      jsonBody(),
      domainAnswers(partnerWrites.createWebhookEndpoint.refusals),
      createWebhookEndpoint(options),
    ],
    revokeWebhookEndpoint: (environment) => [
      ...admit("revokeWebhookEndpoint", environment),
      domainAnswers(partnerWrites.revokeWebhookEndpoint.refusals),
      revokeWebhookEndpoint(options),
    ],
    rotateWebhookSecret: (environment) => [
      ...admit("rotateWebhookSecret", environment),
      domainAnswers(partnerWrites.rotateWebhookSecret.refusals),
      rotateWebhookSecret(options),
    ],
    testWebhookEndpoint: (environment) => [
      ...admit("testWebhookEndpoint", environment),
      domainAnswers(partnerWrites.testWebhookEndpoint.refusals),
      testWebhookEndpoint(options),
    ],
    replayWebhookDelivery: (environment) => [
      ...admit("replayWebhookDelivery", environment),
      operationalClinic(),
      domainAnswers(partnerWrites.replayWebhookDelivery.refusals),
      replayWebhookDelivery(options),
    ],
  });
}
