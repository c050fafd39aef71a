import type pg from "pg";
import { connectEventStore } from "../shared/eventstore/connect.ts";
import { requireEventStore } from "../shared/eventstore/reach.ts";
import { createApp } from "../shared/http/app.ts";
import { listen } from "../shared/http/listen.ts";
import { createPool } from "../shared/postgres/pool.ts";
import { readConfig } from "../shared/runtime/config.ts";
import { createLogger, type Logger } from "../shared/runtime/logger.ts";
import { type RunningService, StartError } from "../shared/runtime/run-service.ts";
import { settlesWithin } from "../shared/runtime/timeout.ts";
import { ensureReadModels } from "./engine/ensure-schema.ts";
import { migrate } from "./migrate.ts";
import { readModels } from "./read-models/all.ts";
import { startRoles } from "./start-roles.ts";
import { createMetrics, serveMetrics } from "./status/metrics.ts";
import { readinessOf } from "./status/readiness.ts";
import { startReporter } from "./status/reporter.ts";

const SETTINGS = [
  "HOST",
  "PORT",
  "LOG_LEVEL",
  "ROLES",
  "EVENTSTORE_URL",
  "DATABASE_URL",
  "DATABASE_POOL_SIZE",
  "NATS_URL",
  "HEADER_BRAND",
  "WEBHOOK_SECRET_KEYS",
  "WEBHOOK_RETRY_SCHEDULE",
  "WEBHOOK_CONNECT_TIMEOUT_MS",
  "WEBHOOK_TIMEOUT_MS",
  "WEBHOOK_ALLOW_LOOPBACK",
] as const;

/** A batch of thousands of events may take a while. Milliseconds. */
const STATEMENT_TIMEOUT = 30_000;

/** At a stop, roles have this long to finish what they do, and connections to be closed. Milliseconds. */
const ROLES_END_WITHIN = 3_500;
const CONNECTIONS_END_WITHIN = 1_500;

/**
 * Starts the projection service: brings the database up to date, then does the roles that it is configured for.
 * Over HTTP it serves its health, and its metrics to Prometheus.
 *
 * @throws {ConfigError | StartError}
 */
export async function startProjection(env: NodeJS.ProcessEnv): Promise<RunningService> {
  const config = readConfig(SETTINGS, env);
  const logger = createLogger("projection", config.LOG_LEVEL);
  const pool = createPool({
    url: config.DATABASE_URL,
    applicationName: "projection",
    size: config.DATABASE_POOL_SIZE,
    statementTimeout: STATEMENT_TIMEOUT,
    // Queues and rebuilds fill tables faster than Postgres analyzes them.
    preferIndexes: true,
    logger,
  });
  const client = connectEventStore(config.EVENTSTORE_URL, "projection");
  const closeConnections = () =>
    settlesWithin(Promise.all([pool.end(), client.dispose()]), CONNECTIONS_END_WITHIN);
  try {
    await requireEventStore(client, config.EVENTSTORE_URL);
    await prepareDatabase(config.DATABASE_URL, pool, logger);
  } catch (error) {
    await closeConnections();
    throw error;
  }
  const metrics = createMetrics();
  const roles = startRoles(config, { client, pool, metrics, logger });
  const reporter = startReporter({ client, pool, roles, metrics, logger });
  const readiness = readinessOf(roles, reporter);
  const app = createApp({ logger, retiredPaths: [], trustProxy: false, readiness });
  app.use(serveMetrics(metrics));
  const endRoles = async () => {
    const ended = await settlesWithin(Promise.all(roles.map((role) => role.stop())), ROLES_END_WITHIN);
    // What they began, checkpoints, leases and transactions bring to its end elsewhere, as after a kill.
    if (!ended) logger.warn("roles wait for a server that does not answer, and are left");
  };
  const endAll = async () => {
    await reporter.stop();
    await closeConnections();
  };
  const server = await listen(app.callback(), config.HOST, config.PORT).catch(async (error: unknown) => {
    await endRoles();
    await endAll();
    throw error;
  });
  logger.info({ url: server.url, roles: roles.map((role) => role.name) }, "projection runs");
  return {
    url: server.url,
    async stop() {
      await Promise.all([endRoles(), server.close()]);
      await endAll();
    },
  };
}

/** Applies the migrations, and makes the tables of the read models where they are not there. */
async function prepareDatabase(databaseUrl: string, pool: pg.Pool, logger: Logger): Promise<void> {
  try {
    await migrate(databaseUrl, logger);
    await ensureReadModels(pool, readModels);
  } catch (error) {
    if (error instanceof StartError) throw error;
    throw new StartError("the database cannot be reached or brought up to date (DATABASE_URL)", {
      cause: error,
    });
  }
}
