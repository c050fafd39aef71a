import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { createEventLog, type EventLog } from "../../shared/eventstore/log.ts";
import { untilAborted } from "../../shared/runtime/abort.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { createNotifier, type Notifier } from "../../shared/runtime/notifier.ts";
import type { DestinationOptions } from "../../shared/webhooks/destination.ts";
import { DifferentLog, requireSameLog, untilSameLog } from "../checkpoints/same-log.ts";
import { eventStreamOf } from "../relay/event-stream.ts";
import { withNats } from "../relay/nats-session.ts";
import type { Role, RoleStatus } from "../roles/role.ts";
import { failed } from "../roles/role-status.ts";
import { deleteOldDeliveries } from "./maintenance/retention.ts";
import { closeUnsendable, skipLongHeld } from "./maintenance/sweep.ts";
import { runDispatcher } from "./matching/dispatcher.ts";
import { drainOutbox } from "./outbox/drain.ts";
import { createTroubles, keepTrying } from "./outbox/keep-trying.ts";
import { createDueEndpoints } from "./scheduling/due-endpoints.ts";
import { runSender } from "./sender.ts";
import { type Connections, createConnections } from "./sending/connections.ts";
import { remembering, type SecretReader } from "./sending/secrets.ts";
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
const OUTBOX_REST = 1_000;
const SWEEP_REST = 1_000;
const RETENTION_REST = 10 * 60_000;

/** The log is checked this often. Milliseconds. */
const CHECK_EVERY = 1_000;

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
  const done = (async () => {
    while (!signal.aborted) {
      const different = await untilDifferentLog({ ...options, logger }, signal, async (term) => {
        const started = createTerm({ ...options, logger }, connections, term);
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
 * @returns the error that ended it; undefined if the signal aborted
 */
async function untilDifferentLog(
  options: WebhooksOptions,
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
      await untilAborted(requireSameLog(options), signal);
      if (!signal.aborted) running ??= run(term.signal);
    } catch (error) {
      // What is out of reach is the parts' own trouble.
      if (error instanceof DifferentLog) different = error;
      else options.logger.debug({ error }, "cannot check which event log this is");
    }
    if (!different) await pause(CHECK_EVERY, signal);
  }
  end();
  signal.removeEventListener("abort", end);
  await running;
  return different;
}

/** Starts the parts of the role, which work until the signal aborts. */
function createTerm(
  options: WebhooksOptions,
  connections: Connections,
  signal: AbortSignal,
): { status(): RoleStatus; done: Promise<unknown> } {
  const { client, pool, natsUrl, logger, clock = Date.now, random = Math.random } = options;
  const troubles = createTroubles();
  const due = createDueEndpoints();
  const search = createNotifier();
  const facts = createNotifier();
  const shared = {
    ...{ pool, log: createEventLog(client), stream: eventStreamOf(options.databaseUrl) },
    ...{ logger, troubles, clock, random, due, search, facts },
    ...{ onDue: due.add, onReplay: search.wake, onFacts: facts.wake },
    requireLog: async () => void (await requireSameLog({ client, pool })),
  };
  const secrets = remembering(options.secrets);
  let started = false;
  const dispatch = (works: () => void) =>
    withNats({ url: natsUrl, name: "clinic webhooks", signal }, (connection, life) => {
      started = true;
      return runDispatcher(connection, shared, works, life);
    });
  const context = { logger, troubles, signal };
  const done = Promise.all([
    keepTrying("messages", context, dispatch),
    runSender({ ...options, ...shared, connections, secrets, schedule: options.retrySchedule }, signal),
    keepTrying("outbox", context, (works) => drainOn(shared, works, signal)),
    keepTrying("sweep", context, (works) => sweepOn(shared, works, signal)),
    keepTrying("retention", context, (works) => deleteOn(shared, works, signal)),
  ]);
  return { status: () => ({ state: started ? "running" : "starting", ...troubles.status() }), done };
}

interface Shared {
  pool: pg.Pool;
  log: EventLog;
  requireLog(): Promise<void>;
  facts: Notifier;
  clock(): number;
}

async function drainOn(
  { pool, log, requireLog, facts }: Shared,
  works: () => void,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const more = await untilAborted(drainOutbox(pool, log, requireLog), signal);
    works();
    if (!more) await facts.sleep(OUTBOX_REST, signal);
  }
}

async function sweepOn(
  { pool, facts, clock }: Shared,
  works: () => void,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const { facts: kept, more } = await closeUnsendable(pool, clock());
    works();
    if (kept > 0) facts.wake();
    if (!more) await pause(SWEEP_REST, signal);
  }
}

async function deleteOn(
  { pool, facts, clock }: Shared,
  works: () => void,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const held = await skipLongHeld(pool, clock());
    if (held.facts > 0) facts.wake();
    const more = await deleteOldDeliveries(pool, clock());
    works();
    if (!more && !held.more) await pause(RETENTION_REST, signal);
  }
}
