import type { EventStoreDBClient } from "@eventstore/db-client";
import { Counter, Gauge, type Registry } from "prom-client";
import { connectEventStore, requireEventStore } from "../../shared/eventstore/connect.ts";
import { createEventLog } from "../../shared/eventstore/log.ts";
import { createEventStoreReadinessCheck } from "../../shared/http/health.ts";
import { serve } from "../../shared/http/listen.ts";
import { createEventLogMeter } from "../../shared/metrics/event-log-metrics.ts";
import { createMissingKeyReporter, registerPoolMetrics } from "../../shared/metrics/postgres-metrics.ts";
import { createRegistry } from "../../shared/metrics/registry.ts";
import { createDataKeys } from "../../shared/personal-data/create-data-keys.ts";
import { createPool } from "../../shared/postgres/pool.ts";
import { holdReadModelLock, type ReadModelLock } from "../../shared/postgres/read-model-lock.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { waitUnlessAborted } from "../../shared/runtime/abort.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import { readConfig } from "../../shared/runtime/config.ts";
import { createLogger, type Logger } from "../../shared/runtime/logger.ts";
import type { RunningService } from "../../shared/runtime/run-service.ts";
import { startTracing, TRACING_SETTING_NAMES } from "../../shared/tracing/start-tracing.ts";
import { createAuditApp } from "./app.ts";
import { createAuditSigner } from "./export/signing.ts";
import { AuditIndex } from "./index/audit-index.ts";
import { runIndex } from "./index/run-index.ts";
import {
  PUBLICATION_OUTCOMES,
  type PublicationOutcome,
  runIndexVerification,
  runTreeHeadPublisher,
} from "./tree/publish-tree-head.ts";

const STATEMENT_TIMEOUT_MS = 5_000;

/**
 * Starts the audit service. It is a separate process, so that its long reads do not slow down the other services.
 *
 * It requires the event log. Postgres provides the audit index, names, data keys and webhook deliveries. Without
 * Postgres, the service still shows the events and states of single streams.
 *
 * @throws {ConfigError} with one line that names every missing or invalid setting
 * @throws {StartError} if the event log does not answer or the port cannot be opened
 */
export async function startAuditService(env: NodeJS.ProcessEnv): Promise<RunningService> {
  const config = readConfig(
    [
      ...(["HOST", "PORT", "DRAIN_DELAY_MS", "LOG_LEVEL", "EVENTSTORE_URL"] as const),
      ...(["DATABASE_URL", "DATABASE_POOL_SIZE", "TRUST_PROXY"] as const),
      ...(["AUDIT_SIGNING_KEYS", "AUDIT_TREE_HEAD_INTERVAL_MS"] as const),
      "PERSONAL_DATA_KEYS" as const,
      ...TRACING_SETTING_NAMES,
    ],
    env,
  );
  const logger = createLogger("audit", config.LOG_LEVEL);
  const stopTracing = await startTracing(config, "audit", logger);
  const signer = await createAuditSigner(config);
  const client = connectEventStore(config.EVENTSTORE_URL, "audit");
  const pool = createPool({
    url: config.DATABASE_URL,
    applicationName: "audit",
    size: config.DATABASE_POOL_SIZE,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    // While the index is filled, Postgres has no statistics of its tables.
    shouldPreferIndexes: true,
    logger,
  });
  const controller = new AbortController();
  const runs: Promise<unknown>[] = [];
  let readModelLock: ReadModelLock | undefined;
  const closeConnections = async () => {
    controller.abort();
    await Promise.all(runs);
    await Promise.all([pool.end(), client.dispose(), readModelLock?.release(), stopTracing()]);
  };
  try {
    await requireEventStore(client, config.EVENTSTORE_URL);
    const registry = createRegistry();
    registerPoolMetrics(registry, [pool]);
    const log = createEventLogMeter(registry)(createEventLog(client));
    const checkReadiness = createEventStoreReadinessCheck(client, logger);
    const dataKeys = createDataKeys(pool, config, createMissingKeyReporter(registry, logger));
    const options = { logger, log, client, dataKeys, pool, signer, index: new AuditIndex(() => pool), registry };
    const app = createAuditApp({ ...options, checkReadiness, isProxyTrusted: config.TRUST_PROXY });
    const service = await serve(app, config, closeConnections);
    const databaseUrl = config.DATABASE_URL;
    readModelLock = holdReadModelLock({ databaseUrl, schema: READ_MODEL_SCHEMA, service: "audit", logger });
    const { signal } = controller;
    runs.push(runIndex({ ...options, databaseUrl }, signal), measureIndexLag(options, signal));
    const intervalMs = config.AUDIT_TREE_HEAD_INTERVAL_MS;
    const treeOptions = { ...options, intervalMs, countOutcome: registerTreeHeadMetric(registry) };
    runs.push(runIndexVerification(treeOptions, signal));
    if (intervalMs > 0) runs.push(runTreeHeadPublisher(treeOptions, signal));
    logger.info({ url: service.url, exportKey: signer.thumbprint }, "audit service is listening");
    const stop = () => {
      controller.abort();
      return service.stop();
    };
    return { ...service, stop, failure: readModelLock.failure };
  } catch (error) {
    await closeConnections();
    throw error;
  }
}

const INDEX_CHECK_INTERVAL_MS = 10_000;

/**
 * Checks regularly whether the index covers the log. A metric shows the time since the last successful check.
 * {@link runIndex} logs the causes of failures.
 */
async function measureIndexLag(
  options: { index: AuditIndex; client: EventStoreDBClient; registry: Registry; logger: Logger },
  signal: AbortSignal,
): Promise<void> {
  const { index, client, registry, logger } = options;
  let coveredAt = performance.now();
  new Gauge({
    name: "audit_index_lag_seconds",
    help: "Time since the audit index last covered the log, at most the uptime of the process, in seconds.",
    registers: [registry],
    collect() {
      this.set((performance.now() - coveredAt) / 1_000);
    },
  });
  while (!signal.aborted) {
    const checkedAt = performance.now();
    try {
      const logEnd = await waitUnlessAborted(index.awaitLogEnd(client), signal);
      if (logEnd !== undefined) coveredAt = checkedAt;
    } catch (error) {
      logger.debug({ error }, "The audit index does not cover the log.");
    }
    await pause(INDEX_CHECK_INTERVAL_MS, signal);
  }
}

function registerTreeHeadMetric(registry: Registry): (outcome: PublicationOutcome) => void {
  const counter = new Counter({
    name: "audit_tree_head_publications_total",
    help: "Attempts of this process to publish a tree head, by outcome: published, unchanged (no new events), failed or different. Includes failed verifications of the audit index.",
    labelNames: ["outcome"] as const,
    registers: [registry],
  });
  for (const outcome of PUBLICATION_OUTCOMES) counter.inc({ outcome }, 0);
  return (outcome) => counter.inc({ outcome });
}
