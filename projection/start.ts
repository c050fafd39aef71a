import type { EventStoreDBClient } from "@eventstore/db-client";
import { createSecretBox } from "../shared/auth/secret-box.ts";
import { connectEventStore } from "../shared/eventstore/connect.ts";
import { requireEventStore } from "../shared/eventstore/reach.ts";
import { createApp } from "../shared/http/app.ts";
import { listen } from "../shared/http/listen.ts";
import { createPool } from "../shared/postgres/pool.ts";
import { readConfig } from "../shared/runtime/config.ts";
import { createLogger } from "../shared/runtime/logger.ts";
import { type RunningService, StartError } from "../shared/runtime/run-service.ts";
import { ensureReadModels } from "./engine/ensure-schema.ts";
import { ANOTHER_LEADS } from "./engine/leadership.ts";
import { startProjectors } from "./engine/projectors.ts";
import { migrate } from "./migrate.ts";
import { readModels } from "./read-models/all.ts";
import { startRelay } from "./relay/relay.ts";
import type { Role } from "./role.ts";
import { createMetrics, serveMetrics } from "./status/metrics.ts";
import { startReporter } from "./status/reporter.ts";
import { startWebhooks } from "./webhooks/webhooks.ts";

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
  "WEBHOOK_TIMEOUT_MS",
  "WEBHOOK_ALLOW_LOOPBACK",
] as const;

/** A batch of thousands of events may take a while. Milliseconds. */
const STATEMENT_TIMEOUT = 30_000;

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
    logger,
  });
  const client = connectEventStore(config.EVENTSTORE_URL, "projection");
  const closeConnections = () => Promise.all([pool.end(), client.dispose()]);
  try {
    await requireEventStore(client, config.EVENTSTORE_URL);
    await prepareDatabase();
  } catch (error) {
    await closeConnections();
    throw error;
  }
  const metrics = createMetrics();
  const roles = startRoles(client);
  const reporter = startReporter({ client, pool, roles, metrics, logger });
  const app = createApp({ logger, retiredPaths: [], trustProxy: false, readiness });
  app.use(serveMetrics(metrics));
  const server = await listen(app.callback(), config.HOST, config.PORT);
  logger.info({ url: server.url, roles: roles.map((role) => role.name) }, "projection runs");
  return {
    url: server.url,
    async stop() {
      await Promise.all([server.close(), ...roles.map((role) => role.stop())]);
      await reporter.stop();
      await closeConnections();
    },
  };

  async function prepareDatabase(): Promise<void> {
    try {
      await migrate(config.DATABASE_URL, logger);
      await ensureReadModels(pool, readModels);
    } catch (error) {
      if (error instanceof StartError) throw error;
      throw new StartError("the database cannot be reached or brought up to date (DATABASE_URL)", {
        cause: error,
      });
    }
  }

  function startRoles(client: EventStoreDBClient): Role[] {
    const deps = { client, pool, databaseUrl: config.DATABASE_URL, logger };
    const starters = {
      projectors: () =>
        startProjectors({
          ...deps,
          models: readModels,
          onBatch: (_, seconds) => metrics.batch.observe(seconds),
          onUnknown: metrics.countUnknown,
        }),
      relay: () => startRelay({ ...deps, natsUrl: config.NATS_URL }),
      webhooks: () =>
        startWebhooks({
          ...deps,
          natsUrl: config.NATS_URL,
          secrets: createSecretBox(config.WEBHOOK_SECRET_KEYS),
          brand: config.HEADER_BRAND,
          retrySchedule: config.WEBHOOK_RETRY_SCHEDULE,
          timeoutMs: config.WEBHOOK_TIMEOUT_MS,
          allowLoopback: config.WEBHOOK_ALLOW_LOOPBACK,
          onAttempt: (outcome) => metrics.attempts.inc({ outcome }),
        }),
    };
    return config.ROLES.map((name) => starters[name]());
  }

  function behind(role: string): string {
    const { events, exact, seconds } = reporter.lagOf(role) ?? { events: 0, exact: true, seconds: 0 };
    if (events === 0) return "";
    return `; ${exact ? "" : "about "}${events} events and ${Math.round(seconds)} s behind`;
  }

  async function readiness(): Promise<Record<string, string | null>> {
    return Object.fromEntries(
      roles.map((role) => {
        const { state, detail } = role.status();
        const ready = detail === ANOTHER_LEADS || (state === "running" && detail === null);
        return [role.name, ready ? null : `${detail ?? state}${behind(role.name)}`];
      }),
    );
  }
}
