import type Koa from "koa";
import type { TokenVerifier } from "../shared/auth/access-token.ts";
import { createApp } from "../shared/http/app.ts";
import { countRefusals } from "../shared/partner-api/rate-limits.ts";
import type { RateLimiter } from "../shared/rate-limit/limiter.ts";
import type { Logger } from "../shared/runtime/logger.ts";
import { createDocsRouter } from "./docs/router.ts";
import { createReadiness, type QueryState, READ_TIMEOUT_MS, type ReadRow } from "./http/read.ts";
import { partnerReads } from "./partner/reads.ts";
import { createPartnerReadRouter } from "./partner/router.ts";
import { createPortalOperations } from "./portal/operations.ts";
import { createPortalRouter } from "./portal/router.ts";
import type { SessionVerifier } from "./portal/session.ts";

export interface QueryApiOptions {
  logger: Logger;
  read: ReadRow;
  verifySession: SessionVerifier;
  verifyToken: TokenVerifier;
  limiter: RateLimiter;
  /** Name of the service's operator. */
  operatorName: string;
  /** Brand segment of the partner API's header names. */
  brand: string;
  /** Public origin of the partner API. */
  origin: string;
  /** Name of the portal's session cookie. */
  cookieName: string;
  retiredPaths: readonly string[];
  trustProxy: boolean;
}

/** Creates the Koa application of the query API: API reference, portal operations and partner reads. */
export function createQueryApp(options: QueryApiOptions): Koa<QueryState> {
  const { logger, read, retiredPaths, trustProxy } = options;
  const app = createApp({
    logger,
    retiredPaths,
    trustProxy,
    readiness: createReadiness(read, logger),
  }) as Koa<QueryState>;
  app.use((ctx, next) => {
    ctx.state.deadline = performance.now() + READ_TIMEOUT_MS;
    return next();
  });
  app.use(createDocsRouter(options).routes());
  app.use(createPortalRouter(createPortalOperations(options), options).routes());
  app.use(countRefusals(options.limiter));
  app.use(createPartnerReadRouter(partnerReads, options).routes());
  return app;
}
