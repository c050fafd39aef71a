import { createKeyedHash } from "../shared/auth/keyed-hash.ts";
import { createSecretBox } from "../shared/auth/secret-box.ts";
import { connectEventStore, requireEventStore } from "../shared/eventstore/connect.ts";
import { createEventLog } from "../shared/eventstore/log.ts";
import { createEventStoreReadinessCheck } from "../shared/http/health.ts";
import { type HttpServer, listen, serve } from "../shared/http/listen.ts";
import { createEventLogMeter } from "../shared/metrics/event-log-metrics.ts";
import {
  createMissingKeyReporter,
  registerPoolMetrics,
  registerRateLimitMetrics,
} from "../shared/metrics/postgres-metrics.ts";
import { createRegistry } from "../shared/metrics/registry.ts";
import { createDataKeys } from "../shared/personal-data/create-data-keys.ts";
import { createPool, openConnections } from "../shared/postgres/pool.ts";
import { createPositionWatch, listenForPositions, readPosition } from "../shared/postgres/read-model-position.ts";
import { createRateLimiter } from "../shared/rate-limit/limiter.ts";
import { readConfig } from "../shared/runtime/config.ts";
import { createLogger } from "../shared/runtime/logger.ts";
import type { RunningService } from "../shared/runtime/run-service.ts";
import { startTracing, TRACING_SETTING_NAMES } from "../shared/tracing/start-tracing.ts";
import { exportWebhookKeys } from "../shared/webhooks/asymmetric-signature.ts";
import { createCommandApp } from "./app.ts";
import { AggregateCache } from "./handling/aggregate-cache.ts";
import { createLinkCodes } from "./operations/link-codes.ts";
import { createOperatorApp } from "./operator-api/app.ts";
import { createReadModelWaiter } from "./partner-api/expose-log-position.ts";
import { createReadModels } from "./partner-api/read-models.ts";
import { createTokenSigner } from "./partner-api/token-signer.ts";

const SETTINGS = [
  "HOST",
  "PORT",
  "OPERATIONS_HOST",
  "OPERATIONS_PORT",
  "DRAIN_DELAY_MS",
  "LOG_LEVEL",
  "EVENTSTORE_URL",
  "DATABASE_URL",
  "DATABASE_POOL_SIZE",
  "HEADER_BRAND",
  "TRUST_PROXY",
  "RETIRED_PATHS",
  "DEPRECATED_PATHS",
  "TOKEN_ISSUER",
  "TOKEN_SIGNING_KEYS",
  "PERSONAL_DATA_KEYS",
  "WEBHOOK_SECRET_KEYS",
  "WEBHOOK_SIGNING_KEYS",
  "WEBHOOK_ALLOW_LOOPBACK",
  "WEBHOOK_DNS_SERVERS",
  ...TRACING_SETTING_NAMES,
] as const;

const STATEMENT_TIMEOUT_MS = 1_000;

/**
 * Starts the command service. The event log is required. Without Postgres, operations fail if they need the read
 * models, the deliveries or a new data key for personal data. Rate limits then apply to each process separately.
 *
 * @throws {ConfigError} with one line that names every missing or invalid setting
 * @throws {StartError} if the event log is unavailable or the port cannot be opened
 */
export async function startCommandService(env: NodeJS.ProcessEnv): Promise<RunningService> {
  const config = readConfig(SETTINGS, env);
  const logger = createLogger("command", config.LOG_LEVEL);
  const stopTracing = await startTracing(config, "command", logger);
  const tokenSigner = await createTokenSigner(config.TOKEN_SIGNING_KEYS.keys, config.TOKEN_ISSUER);
  const webhookKeys = await exportWebhookKeys(config.WEBHOOK_SIGNING_KEYS?.keys);
  const client = connectEventStore(config.EVENTSTORE_URL, "command");
  const pool = createPool({
    url: config.DATABASE_URL,
    applicationName: "command",
    size: config.DATABASE_POOL_SIZE,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    logger,
  });
  const registry = createRegistry();
  registerPoolMetrics(registry, [pool]);
  const limiter = createRateLimiter(pool, logger, registerRateLimitMetrics(registry));
  const dataKeys = createDataKeys(pool, config, createMissingKeyReporter(registry, logger));
  const measure = createEventLogMeter(registry);
  const log = measure(createEventLog(client, { dataKeys }));
  const positionWatch = createPositionWatch(() => readPosition(pool));
  const notificationOptions = { databaseUrl: config.DATABASE_URL, applicationName: "command notifications", logger };
  const stopListening = listenForPositions(notificationOptions, positionWatch.notify);
  let aggregateCache: AggregateCache | undefined;
  let operatorServer: HttpServer | undefined;
  let operatorServerEnd: Promise<void> | undefined;
  /**
   * Closes the server of the operations API. At a stop, both servers finish their requests at the same time. The
   * connections to the databases close after both.
   */
  const closeOperatorServer = () => (operatorServerEnd ??= operatorServer?.close());
  const closeConnections = async () => {
    await closeOperatorServer();
    limiter.close();
    await aggregateCache?.close();
    await Promise.all([stopListening(), pool.end(), client.dispose(), stopTracing()]);
  };
  try {
    await requireEventStore(client, config.EVENTSTORE_URL);
    // Access checks need no personal data, so the cache never holds any.
    aggregateCache = new AggregateCache(client, measure(createEventLog(client)), logger);
    const dependencies = {
      log,
      secretBox: createSecretBox(config.WEBHOOK_SECRET_KEYS),
      linkCodes: createLinkCodes(config.PERSONAL_DATA_KEYS),
    };
    const common = {
      ...{ logger, limiter, brand: config.HEADER_BRAND, isProxyTrusted: config.TRUST_PROXY },
      checkReadiness: createEventStoreReadinessCheck(client, logger),
      waitForReadModels: createReadModelWaiter(positionWatch, logger),
    };
    const app = createCommandApp({
      ...common,
      ...dependencies,
      registry,
      decide: aggregateCache.decide,
      ...createReadModels(pool, log, logger),
      tokenSigner,
      tokenIssuer: config.TOKEN_ISSUER,
      webhookKeys,
      allowsLoopback: config.WEBHOOK_ALLOW_LOOPBACK,
      dnsServers: config.WEBHOOK_DNS_SERVERS,
      retiredPaths: config.RETIRED_PATHS,
      deprecatedPaths: config.DEPRECATED_PATHS,
    });
    await openConnections(pool);
    const requestHash = createKeyedHash(config.PERSONAL_DATA_KEYS, "operator requests");
    const operatorApp = createOperatorApp({ ...common, dependencies, requestHash });
    const { OPERATIONS_HOST: operationsHost, OPERATIONS_PORT: operationsPort } = config;
    if (operationsPort !== undefined)
      operatorServer = await listen(operatorApp.callback(), operationsHost, operationsPort);
    const service = await serve(app, config, closeConnections);
    logger.info({ url: service.url, operationsUrl: operatorServer?.url }, "command service is listening");
    return {
      ...service,
      drain(signal) {
        operatorServer?.startDrain();
        return service.drain?.(signal) ?? Promise.resolve();
      },
      stop() {
        void closeOperatorServer();
        return service.stop();
      },
    };
  } catch (error) {
    await closeConnections();
    throw error;
  }
}
