import { createSecretBox } from "../shared/auth/secret-box.ts";
import { formatCommandLine } from "../shared/command-line/format-command-line.ts";
import { connectEventStore, requireEventStore } from "../shared/eventstore/connect.ts";
import { createEventLog } from "../shared/eventstore/log.ts";
import { createApp } from "../shared/http/app.ts";
import { listen } from "../shared/http/listen.ts";
import { createEventLogMeter } from "../shared/metrics/event-log-metrics.ts";
import { createMissingKeyReporter } from "../shared/metrics/postgres-metrics.ts";
import { createUncachedDataKeys } from "../shared/personal-data/create-data-keys.ts";
import type { DataKeys } from "../shared/personal-data/data-keys.ts";
import { createPool } from "../shared/postgres/pool.ts";
import { holdReadModelLock, type ReadModelLock } from "../shared/postgres/read-model-lock.ts";
import { READ_MODEL_SCHEMA } from "../shared/postgres/read-model-schema.ts";
import { type Config, readConfig } from "../shared/runtime/config.ts";
import { createLogger, type Logger } from "../shared/runtime/logger.ts";
import { type RunningService, StartError } from "../shared/runtime/run-service.ts";
import { settlesWithin } from "../shared/runtime/timeout.ts";
import { startTracing, TRACING_SETTING_NAMES } from "../shared/tracing/start-tracing.ts";
import { createAsymmetricSigner } from "../shared/webhooks/asymmetric-signature.ts";
import type { LogAndDatabase } from "./checkpoints/same-log.ts";
import { startProjectors } from "./engine/projectors.ts";
import { requirePreparedDatabase } from "./prepare-database.ts";
import { readModels } from "./read-models/all.ts";
import { NATS_SETTING_NAMES, validateNatsSettings } from "./relay/nats-settings.ts";
import { startRelay } from "./relay/relay.ts";
import type { Role } from "./roles/role.ts";
import { createMetrics, type Metrics } from "./status/metrics.ts";
import { createReadinessCheck, startReporter } from "./status/reporter.ts";
import { watchServerCertificates } from "./status/server-certificates.ts";
import { startWebhooks, type WebhooksOptions } from "./webhooks/webhooks.ts";

const SETTINGS = [
  "HOST",
  "PORT",
  "LOG_LEVEL",
  "ROLES",
  "EVENTSTORE_URL",
  "DATABASE_URL",
  "DATABASE_POOL_SIZE",
  ...NATS_SETTING_NAMES,
  "HEADER_BRAND",
  "WEBHOOK_SECRET_KEYS",
  "WEBHOOK_SIGNING_KEYS",
  "WEBHOOK_RETRY_SCHEDULE",
  "WEBHOOK_CONNECT_TIMEOUT_MS",
  "WEBHOOK_TIMEOUT_MS",
  "WEBHOOK_ALLOW_LOOPBACK",
  "WEBHOOK_DNS_SERVERS",
  "WEBHOOK_EGRESS_PROXY_URL",
  ...TRACING_SETTING_NAMES,
] as const;

type ServiceConfig = Config<(typeof SETTINGS)[number]>;

/** Settings that only the projectors need. Processes with other roles get no keys of personal data. */
const PROJECTORS_SETTINGS = ["PERSONAL_DATA_KEYS"] as const;

/** Time limit for a statement, long enough for a batch of thousands of events. */
const STATEMENT_TIMEOUT_MS = 30_000;

/** Time limit for locks. Much shorter than for statements, so that a locked row does not delay other rows. */
const LOCK_TIMEOUT_MS = 1_000;

const ROLE_STOP_TIMEOUT_MS = 3_500;

const CLOSE_TIMEOUT_MS = 1_500;

/**
 * Starts the projection service with the configured roles. Serves health and Prometheus metrics over HTTP. The database
 * must be prepared for this release.
 *
 * @throws {ConfigError | StartError}
 */
export async function startProjection(env: NodeJS.ProcessEnv): Promise<RunningService> {
  const isProjector = readConfig(["ROLES"], env).ROLES.includes("projectors");
  const config: ServiceConfig & Partial<Config<"PERSONAL_DATA_KEYS">> = isProjector
    ? readConfig([...SETTINGS, ...PROJECTORS_SETTINGS], env)
    : readConfig(SETTINGS, env);
  const nats = validateNatsSettings(config);
  const signingKeys = config.WEBHOOK_SIGNING_KEYS?.keys;
  const signAsymmetrically = signingKeys && (await createAsymmetricSigner(signingKeys));
  const logger = createLogger("projection", config.LOG_LEVEL);
  const { pool, client, failure, closeConnections } = await connect(config, logger);
  const stopTracing = await startTracing(config, "projection", logger);
  const metrics = createMetrics([pool]);
  const roles = startRoles(config, { client, pool, nats, signAsymmetrically }, metrics, logger);
  const stopReporting = startReporter({ client, pool, roles, metrics, logger });
  const stopWatchingCertificates = watchServerCertificates(config, metrics, logger);
  const checkReadiness = createReadinessCheck(roles);
  const app = createApp({
    logger,
    retiredPaths: [],
    isProxyTrusted: false,
    checkReadiness,
    registry: metrics.registry,
  });
  const stopRoles = async () => {
    const hasStopped = await settlesWithin(Promise.all(roles.map((role) => role.stop())), ROLE_STOP_TIMEOUT_MS);
    // Ending now is safe: checkpoints, leases and transactions let other processes continue the work.
    if (!hasStopped)
      logger.warn("Some roles did not stop in time, because a server does not answer. The process ends without them.");
  };
  const closeAll = async () => {
    stopWatchingCertificates();
    await stopReporting();
    await Promise.all([closeConnections(), stopTracing()]);
  };
  const server = await listen(app.callback(), config.HOST, config.PORT).catch(async (error: unknown) => {
    await stopRoles();
    await closeAll();
    throw error;
  });
  logger.info({ url: server.url, roles: roles.map((role) => role.name) }, "The projection service is running.");
  return {
    url: server.url,
    failure,
    async stop() {
      await Promise.all([stopRoles(), server.close()]);
      await closeAll();
    },
  };
}

function startRoles(
  config: ServiceConfig & Partial<Config<"PERSONAL_DATA_KEYS">>,
  { signAsymmetrically, ...servers }: LogAndDatabase & Pick<WebhooksOptions, "nats" | "signAsymmetrically">,
  metrics: Metrics,
  logger: Logger,
): Role[] {
  const deps = { ...servers, databaseUrl: config.DATABASE_URL, logger };
  const { PERSONAL_DATA_KEYS } = config;
  const dataKeys =
    PERSONAL_DATA_KEYS &&
    createUncachedDataKeys(servers.pool, { PERSONAL_DATA_KEYS }, createMissingKeyReporter(metrics.registry, logger));
  const starters = {
    projectors: () =>
      startProjectors({
        ...deps,
        dataKeys: dataKeys as DataKeys,
        models: readModels,
        onBatch: (_, seconds) => metrics.batch.observe(seconds),
      }),
    relay: () => startRelay(deps),
    webhooks: () =>
      startWebhooks({
        ...deps,
        secretReader: createSecretBox(config.WEBHOOK_SECRET_KEYS),
        signAsymmetrically,
        brand: config.HEADER_BRAND,
        retryScheduleSeconds: config.WEBHOOK_RETRY_SCHEDULE,
        connectTimeoutMs: config.WEBHOOK_CONNECT_TIMEOUT_MS,
        timeoutMs: config.WEBHOOK_TIMEOUT_MS,
        allowsLoopback: config.WEBHOOK_ALLOW_LOOPBACK,
        dnsServers: config.WEBHOOK_DNS_SERVERS,
        egressProxyUrl: config.WEBHOOK_EGRESS_PROXY_URL,
        onEgressProxyFailure: () => metrics.egressProxyFailures.inc(),
        log: createEventLogMeter(metrics.registry)(createEventLog(servers.client)),
        onAttempt(outcome, seconds) {
          metrics.attempts.inc({ outcome });
          metrics.attemptDuration.observe(seconds);
        },
        onClosed: (status, deliveryCount) => metrics.closedDeliveries.inc({ status }, deliveryCount),
      }),
  };
  return config.ROLES.map((name) => starters[name]());
}

/**
 * Connects to the log and the database.
 *
 * @returns the connections, and a promise that resolves with the reason if the read models were dropped or cannot be
 *   locked
 */
async function connect(config: ServiceConfig, logger: Logger) {
  const { DATABASE_URL: databaseUrl } = config;
  const pool = createPool({
    url: databaseUrl,
    applicationName: "projection",
    size: config.DATABASE_POOL_SIZE,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    lockTimeoutMs: LOCK_TIMEOUT_MS,
    // Queues and rebuilds fill tables faster than Postgres updates their statistics, so the planner might choose slow
    // sequential scans.
    shouldPreferIndexes: true,
    logger,
  });
  const client = connectEventStore(config.EVENTSTORE_URL, "projection");
  let readModelLock: ReadModelLock | undefined;
  const closeConnections = () =>
    settlesWithin(Promise.all([pool.end(), client.dispose(), readModelLock?.release()]), CLOSE_TIMEOUT_MS);
  try {
    await requireEventStore(client, config.EVENTSTORE_URL);
    await requirePreparedDatabase(pool);
  } catch (error) {
    await closeConnections();
    throw error;
  }
  const lockOptions = { databaseUrl, schema: READ_MODEL_SCHEMA, service: "projection", logger };
  readModelLock = holdReadModelLock({ ...lockOptions, detail: config.ROLES.join() });
  const failure = Promise.race([readModelLock.missing.then(createDroppedError), readModelLock.failure]);
  return { pool, client, failure, closeConnections };
}

function createDroppedError(): StartError {
  return new StartError(
    `The read models ${READ_MODEL_SCHEMA} do not exist, because the prune of another release dropped them. Stop this release, or run its \`${formatCommandLine("projection migrate")}\`.`,
  );
}
