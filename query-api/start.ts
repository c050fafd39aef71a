import { createTokenVerifier } from "../shared/auth/access-token.ts";
import { listen } from "../shared/http/listen.ts";
import { createPool } from "../shared/postgres/pool.ts";
import { createRateLimiter } from "../shared/rate-limit/limiter.ts";
import { readConfig } from "../shared/runtime/config.ts";
import { createLogger } from "../shared/runtime/logger.ts";
import type { RunningService } from "../shared/runtime/run-service.ts";
import { settlesWithin } from "../shared/runtime/timeout.ts";
import { createQueryApp } from "./app.ts";
import { createReadRow } from "./http/read.ts";
import { createTokenKeys } from "./partner/token-keys.ts";
import { createSessionVerifier } from "./portal/session.ts";

const SETTINGS = [
  "HOST",
  "PORT",
  "LOG_LEVEL",
  "DATABASE_URL",
  "DATABASE_POOL_SIZE",
  "HEADER_BRAND",
  "OPERATOR_NAME",
  "TRUST_PROXY",
  "RETIRED_PATHS",
  "PORTAL_COOKIE_NAME",
  "PORTAL_JWT_ISSUER",
  "PORTAL_JWT_SECRET",
  "PORTAL_JWKS_URL",
  "TOKEN_ISSUER",
  "TOKEN_JWKS_URL",
] as const;

/** Postgres gives up on a statement after this. Milliseconds. */
const STATEMENT_WITHIN = 2_000;

/** Connections are given up after this when the service stops. Milliseconds. */
const POOLS_END_WITHIN = 2_000;

/** A count is one short statement; one that waits for its row holds a connection. */
const LIMITER_CONNECTIONS = 4;

/** Postgres gives up on a count after this. Milliseconds. */
const COUNT_WITHIN = 1_000;

/**
 * Starts the query API: the portal's operations and the partner API's reads. It starts without Postgres and answers
 * 503 until that is there.
 *
 * @throws {ConfigError} one line that names every setting that is missing or wrong
 * @throws {StartError} where it cannot listen
 */
export async function startQueryApi(env: NodeJS.ProcessEnv): Promise<RunningService> {
  const config = readConfig(SETTINGS, env);
  const logger = createLogger("query-api", config.LOG_LEVEL);
  const verifySession = createSessionVerifier(config);
  const tokenKeys = createTokenKeys(new URL(config.TOKEN_JWKS_URL), logger);
  const connect = (applicationName: string, size: number, statementTimeout = STATEMENT_WITHIN) =>
    createPool({
      url: config.DATABASE_URL,
      applicationName,
      size,
      statementTimeout,
      logger,
    });
  const pool = connect("clinic-query-api", config.DATABASE_POOL_SIZE);
  // Counting requests must not wait for slow reads.
  const limiterPool = connect("clinic-query-api limits", LIMITER_CONNECTIONS, COUNT_WITHIN);
  const limiter = createRateLimiter(limiterPool, logger);
  const app = createQueryApp({
    logger,
    read: createReadRow(pool),
    verifySession,
    verifyToken: createTokenVerifier(tokenKeys, config.TOKEN_ISSUER),
    limiter,
    operatorName: config.OPERATOR_NAME,
    brand: config.HEADER_BRAND,
    origin: config.TOKEN_ISSUER,
    cookieName: config.PORTAL_COOKIE_NAME,
    retiredPaths: config.RETIRED_PATHS,
    trustProxy: config.TRUST_PROXY,
  });
  const server = await listen(app.callback(), config.HOST, config.PORT);
  logger.info({ url: server.url }, "query-api listens");
  return {
    url: server.url,
    async stop() {
      await server.close();
      limiter.close();
      await settlesWithin(Promise.all([pool.end(), limiterPool.end()]), POOLS_END_WITHIN);
    },
  };
}
