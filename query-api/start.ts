import { Gauge } from "prom-client";
import { createTokenVerifier, TOKEN_LIFETIME_SECONDS } from "../shared/auth/access-token.ts";
import { serve } from "../shared/http/listen.ts";
import { registerPoolMetrics, registerRateLimitMetrics } from "../shared/metrics/postgres-metrics.ts";
import { createRegistry } from "../shared/metrics/registry.ts";
import { createPool, openConnections } from "../shared/postgres/pool.ts";
import { holdReadModelLock, type ReadModelLock } from "../shared/postgres/read-model-lock.ts";
import { createPositionWatch, listenForPositions, positionStatement } from "../shared/postgres/read-model-position.ts";
import { READ_MODEL_SCHEMA } from "../shared/postgres/read-model-schema.ts";
import { createRateLimiter } from "../shared/rate-limit/limiter.ts";
import { readConfig } from "../shared/runtime/config.ts";
import { createLogger } from "../shared/runtime/logger.ts";
import type { RunningService } from "../shared/runtime/run-service.ts";
import { startTracing, TRACING_SETTING_NAMES } from "../shared/tracing/start-tracing.ts";
import { createQueryApp } from "./app.ts";
import { createRowReader, READ_TIMEOUT_MS, requireFilledReadModels } from "./http/read.ts";
import { createRemoteKeys } from "./http/remote-keys.ts";
import { limitStandbyLag } from "./http/standby-lag.ts";
import { createWaits, type NewEvents, newEventsStatement } from "./partner/waits.ts";
import { createSessionVerifier } from "./portal/session.ts";

const SETTINGS = [
  "HOST",
  "PORT",
  "DRAIN_DELAY_MS",
  "LOG_LEVEL",
  "DATABASE_URL",
  "DATABASE_READ_URL",
  "DATABASE_POOL_SIZE",
  "HEADER_BRAND",
  "OPERATOR_NAME",
  "TRUST_PROXY",
  "RETIRED_PATHS",
  "DEPRECATED_PATHS",
  "PORTAL_COOKIE_NAME",
  "PORTAL_JWT_ISSUER",
  "PORTAL_JWT_SECRET",
  "PORTAL_JWKS_URL",
  "TOKEN_ISSUER",
  "TOKEN_JWKS_URL",
  ...TRACING_SETTING_NAMES,
] as const;

const STATEMENT_TIMEOUT_MS = 2_000;

/** Maximum number of connections of the rate limiter. A statement that waits for a locked row occupies a connection. */
const LIMITER_POOL_SIZE = 4;

const COUNT_TIMEOUT_MS = 1_000;

/**
 * Starts the query API, which serves the portal's operations and the read operations of the partner API. If Postgres is
 * unavailable, the service starts and returns 503 until it can connect.
 *
 * @throws {ConfigError} with one line that names every missing or wrong setting
 * @throws {StartError} if the service cannot listen on the configured host and port
 */
export async function startQueryApi(env: NodeJS.ProcessEnv): Promise<RunningService> {
  const config = readConfig(SETTINGS, env);
  const logger = createLogger("query-api", config.LOG_LEVEL);
  const stopTracing = await startTracing(config, "query-api", logger);
  // When the keys cannot be fetched for the lifetime of a token, all tokens with known keys have expired.
  const tokenKeySource = {
    url: new URL(config.TOKEN_JWKS_URL),
    name: "token keys",
    maxStaleAgeMs: TOKEN_LIFETIME_SECONDS * 1_000,
  };
  const [verifySession, tokenKeys] = await Promise.all([
    createSessionVerifier(config, logger),
    createRemoteKeys(tokenKeySource, logger),
  ]);
  const planOptions = { shouldPreferIndexes: true, requiresGenericPlans: true };
  const pool = createPool({
    url: config.DATABASE_READ_URL ?? config.DATABASE_URL,
    applicationName: "clinic-query-api",
    size: config.DATABASE_POOL_SIZE,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    ...planOptions,
    logger,
  });
  // The rate limiter has its own pool, so that it does not wait for slow reads. It writes, so it needs the primary.
  const limiterPool = createPool({
    url: config.DATABASE_URL,
    applicationName: "clinic-query-api limits",
    size: LIMITER_POOL_SIZE,
    statementTimeoutMs: COUNT_TIMEOUT_MS,
    ...planOptions,
    logger,
  });
  const registry = createRegistry();
  registerPoolMetrics(registry, [pool, limiterPool]);
  const limiter = createRateLimiter(limiterPool, logger, registerRateLimitMetrics(registry));
  const standbyReads = config.DATABASE_READ_URL ? limitStandbyLag(createRowReader(pool), limiterPool) : undefined;
  const readRow = requireFilledReadModels(standbyReads?.readRow ?? createRowReader(pool));
  const positionWatch = createPositionWatch(async () => {
    const deadline = performance.now() + READ_TIMEOUT_MS;
    return (await readRow<{ position: bigint }>(positionStatement, [], deadline)).position;
  });
  const waits = createWaits(positionWatch, (position) =>
    readRow<NewEvents>(newEventsStatement, [position], performance.now() + READ_TIMEOUT_MS),
  );
  new Gauge({
    name: "partner_waiting_requests",
    help: "Requests of partners that wait for events. The wait does not count as their duration.",
    registers: [registry],
    collect() {
      this.set(waits.getWaitCount());
    },
  });
  // An ingress that held requests while the service restarted sends them all as soon as it listens.
  await Promise.all([pool, limiterPool].map(openConnections));
  const app = createQueryApp({
    logger,
    readRow,
    waits,
    verifySession,
    verifyToken: createTokenVerifier(tokenKeys, config.TOKEN_ISSUER),
    limiter,
    operatorName: config.OPERATOR_NAME,
    brand: config.HEADER_BRAND,
    origin: config.TOKEN_ISSUER,
    cookieName: config.PORTAL_COOKIE_NAME,
    retiredPaths: config.RETIRED_PATHS,
    deprecatedPaths: config.DEPRECATED_PATHS,
    isProxyTrusted: config.TRUST_PROXY,
    registry,
  });
  let readModelLock: ReadModelLock | undefined;
  let stopListening: (() => Promise<void>) | undefined;
  const service = await serve(app, config, () => {
    limiter.close();
    return Promise.all([
      pool.end(),
      limiterPool.end(),
      standbyReads?.close(),
      stopListening?.(),
      readModelLock?.release(),
      stopTracing(),
    ]);
  });
  const notificationOptions = { databaseUrl: config.DATABASE_URL, applicationName: "query-api notifications", logger };
  // A standby refuses LISTEN, and may lag behind the primary's notifications.
  if (!config.DATABASE_READ_URL) {
    stopListening = listenForPositions(notificationOptions, (position) => {
      positionWatch.notify(position);
      waits.notify(position);
    });
  }
  const lockOptions = { databaseUrl: config.DATABASE_URL, schema: READ_MODEL_SCHEMA, service: "query-api", logger };
  readModelLock = holdReadModelLock(lockOptions);
  logger.info({ url: service.url }, "query-api is listening");
  return {
    url: service.url,
    failure: readModelLock.failure,
    async drain(signal) {
      waits.stop();
      await service.drain?.(signal);
    },
    async stop() {
      waits.stop();
      await service.stop();
    },
  };
}
