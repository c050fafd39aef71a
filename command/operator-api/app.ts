import type Koa from "koa";
import type { KeyedHash } from "../../shared/auth/keyed-hash.ts";
import { type AppOptions, createApp, type RequestState } from "../../shared/http/app.ts";
import { parseJsonBody } from "../../shared/http/request-body.ts";
import { limitResponseTime } from "../../shared/http/response-timeout.ts";
import { createRouter } from "../../shared/http/router.ts";
import type { RateLimiter } from "../../shared/rate-limit/limiter.ts";
import { limitAddressConcurrency } from "../../shared/rate-limit/middleware.ts";
import { clinicCommands } from "../operations/commands.ts";
import type { CommandDependencies } from "../operations/define-command.ts";
import { exposeLogPosition, type WaitForReadModels } from "../partner-api/expose-log-position.ts";
import { type OperatorState, requireOperator } from "./authorize.ts";
import { COMMANDS_PATH, createOperatorDocument, toPathName } from "./document.ts";
import { runCommand } from "./run-command.ts";

export interface OperatorAppOptions extends Omit<AppOptions, "retiredPaths"> {
  dependencies: CommandDependencies;
  /**
   * Hashes requests, to detect that an idempotency key is reused for a different request. The hash has a key, because
   * names in a plain hash could be guessed.
   */
  requestHash: KeyedHash;
  limiter: RateLimiter;
  waitForReadModels: WaitForReadModels;
  brand: string;
}

const RESPONSE_TIMEOUT_MS = 25_000;

/**
 * Creates the Koa application of the operations API, with which a clinic's own systems run commands. The application
 * needs its own listener, so that the ingress of the partner API cannot reach it.
 */
export function createOperatorApp(options: OperatorAppOptions): Koa<RequestState> {
  const { dependencies, limiter, brand } = options;
  const app = createApp({ ...options, retiredPaths: [] });
  const document = createOperatorDocument(brand);
  const router = createRouter<OperatorState>()
    .use(limitAddressConcurrency())
    .get("operations.openapi", "/operations/v1/openapi.json", (ctx) => {
      ctx.body = document;
    });
  for (const command of clinicCommands)
    router.post(
      `operations.${toPathName(command)}`,
      `${COMMANDS_PATH}/${toPathName(command)}`,
      limitResponseTime(RESPONSE_TIMEOUT_MS, "event_log_unavailable"),
      requireOperator(dependencies.log, limiter),
      exposeLogPosition(brand, options.waitForReadModels),
      parseJsonBody(),
      runCommand(command, options),
    );
  app.use(router.routes());
  return app;
}
