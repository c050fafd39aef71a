import type Koa from "koa";
import type { Registry } from "prom-client";
import { createApp } from "../shared/http/app.ts";
import type { Readiness } from "../shared/http/health.ts";
import { countRefusals } from "../shared/partner-api/rate-limits.ts";
import { positionStatement } from "../shared/postgres/read-model-position.ts";
import type { Logger } from "../shared/runtime/logger.ts";
import type { DeprecatedPath } from "../shared/runtime/setting-schemas.ts";
import { createDocsRouter, type DocsOptions } from "./docs/router.ts";
import { NotFilledError, type QueryState, READ_TIMEOUT_MS, type ReadRow } from "./http/read.ts";
import { StandbyBehindError } from "./http/standby-lag.ts";
import { partnerReads } from "./partner/reads.ts";
import { createPartnerReadRouter, type PartnerDependencies } from "./partner/router.ts";
import { createPartnerPageRouter } from "./partner-page/router.ts";
import { createPortalOperations } from "./portal/operations.ts";
import { createPortalRouter, type PortalDependencies } from "./portal/router.ts";

export interface QueryApiOptions extends DocsOptions, PortalDependencies, PartnerDependencies {
  logger: Logger;
  retiredPaths: readonly string[];
  deprecatedPaths?: readonly DeprecatedPath[] | undefined;
  isProxyTrusted: boolean;
  /** Registry of the metrics that the application serves. By default, a new registry. */
  registry?: Registry;
}

/**
 * Creates the Koa application of the query API. The application serves the API reference, the page for partners, the
 * portal operations and the read operations of the partner API.
 */
export function createQueryApp(options: QueryApiOptions): Koa<QueryState> {
  const checkReadiness = createReadinessCheck(options.readRow, options.logger);
  const app = createApp({ ...options, checkReadiness, hasReference: true }) as Koa<QueryState>;
  app.use((ctx, next) => {
    ctx.state.deadline = performance.now() + READ_TIMEOUT_MS;
    return next();
  });
  app.use(createPortalRouter(createPortalOperations(options), options).routes());
  app.use(countRefusals(options.limiter));
  app.use(createPartnerReadRouter(partnerReads, options).routes());
  // A router compares each request with all its paths. The pages have most of the paths, and few of the requests.
  app.use(createDocsRouter(options).routes());
  app.use(createPartnerPageRouter(options.brand).routes());
  return app;
}

/**
 * Creates the readiness check. The read models of this release must be readable and must have reached the end of the
 * log. Logs the cause of a failure, but does not return it.
 */
function createReadinessCheck(readRow: ReadRow, logger: Logger): Readiness {
  return async () => {
    try {
      await readRow(positionStatement, [], performance.now() + READ_TIMEOUT_MS);
      return { postgres: null };
    } catch (error) {
      const { cause } = error as Error;
      if (cause instanceof NotFilledError) return { postgres: null, readModels: "not filled yet" };
      if (cause instanceof StandbyBehindError) return { postgres: "the standby is behind the primary" };
      logger.warn({ error }, "The service is not ready, because it cannot read the read models.");
      return { postgres: "unavailable" };
    }
  };
}
