import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { createEventLog, type EventLog } from "../../shared/eventstore/log.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { orAborted } from "../../shared/runtime/together.ts";
import { createWaker, type Waker } from "../../shared/runtime/waker.ts";
import type { DestinationOptions } from "../../shared/webhooks/destination.ts";
import { DifferentLog, requireSameLog, untilSameLog } from "../checkpoints/same-log.ts";
import { eventStreamOf } from "../relay/event-stream.ts";
import { withNats } from "../relay/nats-session.ts";
import type { Role, RoleStatus } from "../roles/role.ts";
import { failed, lastErrorNow } from "../roles/role-status.ts";
import { deleteOldDeliveries } from "./maintenance/retention.ts";
import { closeUnsendable, skipLongHeld } from "./maintenance/sweep.ts";
import { runDispatcher } from "./matching/dispatcher.ts";
import { drainOutbox } from "./outbox/drain.ts";
import { createHealthTracker, retryForever } from "./outbox/retry-forever.ts";
import { createDueEndpoints } from "./scheduling/due-endpoints.ts";
import { runSender } from "./sender.ts";
import { type Connections, createConnections } from "./sending/connections.ts";
import { cachingSecrets, type SecretReader } from "./sending/secrets.ts";
import type { AttemptLimits } from "./sending/send.ts";

export interface WebhooksOptions extends DestinationOptions, AttemptLimits {
  client: EventStoreDBClient;
  pool: pg.Pool;
  databaseUrl: string;
  natsUrl: string;
  logger: Logger;
  /** Opens the endpoints' signing secrets. */
  secrets: SecretReader;
  /** The brand segment of header names. */
  brand: string;
  /** Seconds before each retry. */
  retrySchedule: readonly number[];
  /** Told of each attempt whose outcome is on record: delivered, pending (again), or failed for good. */
  onAttempt?(outcome: string): void;
  /** Milliseconds since 1970. */
  clock?: () => number;
  /** From 0 up to, not including, 1. */
  random?: () => number;
}

/** How long the parts rest when there is nothing to do, unless they are woken. Milliseconds. */
const OUTBOX_INTERVAL_MS = 1_000;
const SWEEP_INTERVAL_MS = 1_000;
const RETENTION_INTERVAL_MS = 10 * 60_000;

/** The log is checked this often. Milliseconds. */
const LOG_CHECK_INTERVAL_MS = 1_000;

/**
 * The role that delivers webhooks: takes messages from JetStream, makes delivery rows of them, sends what is due,
 * tells the log what follows, and deletes what is old. Any number of processes may do it at once. What is out of
 * reach is waited for.
 *
 * It works only while the log is the one that the database was built from. Otherwise the role fails, and goes on by
 * itself when the log fits the database again.
 */
export function startWebhooks(options: WebhooksOptions): Role {
  const logger = options.logger.child({ role: "webhooks" });
  const ended = new AbortController();
  const { signal } = ended;
  const connections = createConnections();
  let status = (): RoleStatus => ({ state: "starting", detail: null });
  const onUnchecked = (error: unknown) => {
    logger.warn({ error }, "Webhooks wait: which event log this is cannot be checked");
    const waiting: RoleStatus = { state: "starting", detail: "waits", lastError: lastErrorNow(error) };
    status = () => waiting;
  };
  const done = (async () => {
    while (!signal.aborted) {
      const different = await untilDifferentLog({ ...options, logger, onUnchecked }, signal, async (term) => {
        const started = startParts({ ...options, logger }, connections, term);
        status = started.status;
        await started.done;
      });
      if (!different) return;
      const stopped = failed(status(), different);
      status = () => stopped;
      logger.fatal({ error: different }, "webhooks stopped");
      await untilSameLog({ ...options, logger }, signal);
    }
  })();
  return {
    name: "webhooks",
    status: () => status(),
    async stop() {
      ended.abort();
      await done;
      connections.close();
    },
  };
}

/**
 * Runs something from the moment that the log is known to be the one that the database was built from, until it is not.
 *
 * @param options.onUnchecked called with each error of the check until it has succeeded once. Later, the parts of the role
 *   report what is out of reach.
 * @returns the error that ended it; undefined if the signal aborted
 */
async function untilDifferentLog(
  options: WebhooksOptions & { onUnchecked(error: unknown): void },
  signal: AbortSignal,
  run: (term: AbortSignal) => Promise<void>,
): Promise<DifferentLog | undefined> {
  const term = new AbortController();
  const end = () => term.abort();
  signal.addEventListener("abort", end, { once: true });
  let different: DifferentLog | undefined;
  let running: Promise<void> | undefined;
  while (!signal.aborted && !different) {
    try {
      await orAborted(requireSameLog(options), signal);
      if (!signal.aborted) running ??= run(term.signal);
    } catch (error) {
      if (error instanceof DifferentLog) different = error;
      else if (!running) options.onUnchecked(error);
      else options.logger.debug({ error }, "cannot check which event log this is");
    }
    if (!different) await pause(LOG_CHECK_INTERVAL_MS, signal);
  }
  end();
  signal.removeEventListener("abort", end);
  await running;
  return different;
}

/** Starts the parts of the role, which work until the signal aborts. */
function startParts(
  options: WebhooksOptions,
  connections: Connections,
  signal: AbortSignal,
): { status(): RoleStatus; done: Promise<unknown> } {
  const { client, pool, natsUrl, logger, clock = Date.now, random = Math.random } = options;
  const health = createHealthTracker();
  const due = createDueEndpoints();
  const search = createWaker();
  const facts = createWaker();
  const shared = {
    ...{ pool, log: createEventLog(client), stream: eventStreamOf(options.databaseUrl) },
    ...{ logger, health, clock, random, due, search, facts },
    ...{ onDue: due.add, onReplay: search.wake, onFacts: facts.wake },
    requireLog: async () => void (await requireSameLog({ client, pool })),
  };
  const secrets = cachingSecrets(options.secrets);
  let started = false;
  const dispatch = (markHealthy: () => void) =>
    withNats({ url: natsUrl, name: "clinic webhooks", signal }, (connection, life) => {
      started = true;
      return runDispatcher(connection, shared, markHealthy, life);
    });
  const context = { logger, health, signal };
  const done = Promise.all([
    retryForever("messages", context, dispatch),
    runSender({ ...options, ...shared, connections, secrets, schedule: options.retrySchedule }, signal),
    retryForever("outbox", context, (markHealthy) => keepDraining(shared, markHealthy, signal)),
    retryForever("sweep", context, (markHealthy) => keepSweeping(shared, markHealthy, signal)),
    retryForever("retention", context, (markHealthy) => keepDeleting(shared, markHealthy, signal)),
  ]);
  return { status: () => ({ state: started ? "running" : "starting", ...health.status() }), done };
}

interface Shared {
  pool: pg.Pool;
  log: EventLog;
  requireLog(): Promise<void>;
  facts: Waker;
  clock(): number;
}

async function keepDraining(
  { pool, log, requireLog, facts }: Shared,
  markHealthy: () => void,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const more = await orAborted(drainOutbox(pool, log, requireLog), signal);
    markHealthy();
    if (!more) await facts.sleep(OUTBOX_INTERVAL_MS, signal);
  }
}

async function keepSweeping(
  { pool, facts, clock }: Shared,
  markHealthy: () => void,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const { facts: kept, more } = await closeUnsendable(pool, clock());
    markHealthy();
    if (kept > 0) facts.wake();
    if (!more) await pause(SWEEP_INTERVAL_MS, signal);
  }
}

async function keepDeleting(
  { pool, facts, clock }: Shared,
  markHealthy: () => void,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const held = await skipLongHeld(pool, clock());
    if (held.facts > 0) facts.wake();
    const more = await deleteOldDeliveries(pool, clock());
    markHealthy();
    if (!more && !held.more) await pause(RETENTION_INTERVAL_MS, signal);
  }
}
