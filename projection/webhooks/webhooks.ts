import { setMaxListeners } from "node:events";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { withLeadership } from "../../shared/postgres/leadership.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { runTaskGroup, waitUnlessAborted } from "../../shared/runtime/abort.ts";
import { createNotifier, pause } from "../../shared/runtime/backoff.ts";
import { type Loop, repeat, retry } from "../../shared/runtime/work.ts";
import { isFilled } from "../checkpoints/checkpoint.ts";
import { requireSameLog, watchSameLog } from "../checkpoints/same-log.ts";
import { deriveStreamNames } from "../nats/event-stream.ts";
import { withNats } from "../nats/nats-session.ts";
import type { NatsSettings } from "../nats/nats-settings.ts";
import { type Role, type RoleDeps, type RoleStatus, startRole, toLastError } from "../roles/role.ts";
import { runMaintenance } from "./maintenance.ts";
import { Arrivals, runDispatcher } from "./match/dispatcher.ts";
import { RevocationWatch } from "./match/revocations.ts";
import type { ClosedStatus } from "./record/close-deliveries.ts";
import {
  findEndedReplays,
  findEndpointFailures,
  findExpiringSecrets,
  recordEvents,
  type UnrecordedEvent,
} from "./record/record-events.ts";
import { continueReplays } from "./replay/continue-replays.ts";
import type { DueEndpoint } from "./schedule/schedule.ts";
import { type AttemptOptions, createSecretCache } from "./send/attempt-delivery.ts";
import { type Connections, createConnections } from "./send/connections.ts";
import { EgressProxy } from "./send/egress-proxy.ts";
import { Sender } from "./sender.ts";
import { WebhooksSession } from "./session.ts";

export interface WebhooksOptions extends RoleDeps, Omit<AttemptOptions, "connections"> {
  nats: NatsSettings;
  /** Seconds before each retry. */
  retryScheduleSeconds: readonly number[];
  log: EventLog;
  /**
   * Called for each recorded attempt, with the new status of its delivery (delivered, pending or failed) and the
   * duration of the attempt in seconds.
   */
  onAttempt?(outcome: string, seconds: number): void;
  /** Called with the number of pending deliveries that the role has closed without sending them. */
  onClosed?(status: ClosedStatus, deliveryCount: number): void;
  /** URL of an HTTP proxy for all destinations except loopback addresses. If undefined, connections are direct. */
  egressProxyUrl?: string | undefined;
  /** Milliseconds since 1970. */
  clock?: () => number;
  /** Returns a random number from 0 inclusive to 1 exclusive. */
  random?: () => number;
}

/** Maximum number of listeners of the abort signal. Each part of the role adds listeners, also for its pauses. */
const MAX_LISTENERS = 30;

/** Pauses of the role's background loops while no work is left. */
const EVENTS_INTERVAL_MS = 1_000;
const REPLAYS_INTERVAL_MS = 1_000;
const SECRETS_INTERVAL_MS = 10 * 60_000;

/** Minimum pause between two batches of a replay. */
const REPLAY_BATCH_INTERVAL_MS = 200;

const CHECK_INTERVAL_MS = 1_000;

/**
 * Starts the role that delivers webhooks. One process turns public events into deliveries. Any number of processes send
 * due deliveries, record events about endpoints and replays in the log, and delete old deliveries. If a server is
 * unavailable, the role waits. Without NATS, it works with a small delay.
 *
 * While the event log does not match the database, the role has the state `failed` and does no work.
 */
export function startWebhooks(webhooksOptions: WebhooksOptions): Role {
  return startRole("webhooks", webhooksOptions, (options, { setStatus }, signal) => {
    const { egressProxyUrl: url, connectTimeoutMs, logger } = options;
    const report = (error: unknown) => {
      if (error !== null)
        setStatus({ state: "starting", detail: "waits", isLeader: false, lastError: toLastError(error) });
    };
    const runParts = async (groupSignal: AbortSignal) => {
      setMaxListeners(MAX_LISTENERS, groupSignal);
      const connections = createConnections(url ? new EgressProxy({ url, connectTimeoutMs, logger }) : undefined);
      await runRoleParts(options, connections, setStatus, groupSignal).finally(() => connections.close());
    };
    return {
      async run() {
        const loop = { name: "check of the read models", logger, signal, report };
        await retry(loop, () => requireFilled(options, signal));
        await runTaskGroup(signal, [(groupSignal) => watchSameLog(options, groupSignal), runParts]);
      },
    };
  });
}

/**
 * Checks that the log matches the database, and that the read models are filled. Read models that are not filled
 * contain states of the past, such as a revoked installation that was later approved again.
 */
async function requireFilled(options: WebhooksOptions, signal: AbortSignal): Promise<void> {
  await waitUnlessAborted(requireSameLog(options), signal);
  if (!signal.aborted && !(await isFilled(options.pool, READ_MODEL_SCHEMA)))
    throw new Error("The read models are not filled yet.");
}

/** Runs the parts of the role until the signal aborts, and reports their status. */
async function runRoleParts(
  options: WebhooksOptions,
  connections: Connections,
  setStatus: (status: RoleStatus) => void,
  signal: AbortSignal,
): Promise<void> {
  const { client, pool, nats, logger, databaseUrl, clock = Date.now, random = Math.random } = options;
  const failingLoops = new Set<string>();
  let position: bigint | undefined;
  const reportStatus = (changes: Pick<RoleStatus, "lastError"> = {}) => {
    const detail = failingLoops.size === 0 ? null : "waits";
    setStatus({ state: "running", detail, isLeader: position !== undefined, position, ...changes });
  };
  const createLoop = (name: string): Loop => ({
    name,
    logger,
    signal,
    report(error) {
      if (error === null) {
        if (failingLoops.delete(name)) reportStatus();
        return;
      }
      failingLoops.add(name);
      const { message, at } = toLastError(error);
      reportStatus({ lastError: { message: `${name}: ${message}`, at } });
    },
  });
  reportStatus();
  const [searchNotifier, replayNotifier] = [createNotifier(), createNotifier()];
  const arrivals = new Arrivals();
  const revocations = new RevocationWatch({ client, pool, log: options.log, logger });
  const onPosition = (position: bigint | undefined) => {
    revocations.setReadModelPosition(position);
    arrivals.onPosition(position);
  };
  const session = new WebhooksSession(pool, { onSenderGone: searchNotifier.wake, onPosition });
  const deps = {
    pool,
    log: options.log,
    logger,
    createLoop,
    clock,
    random,
    searchNotifier,
    session,
    revocations,
    onDue: (endpoints: readonly DueEndpoint[]) => sender.addDue(endpoints),
  };
  const secretReader = createSecretCache(options.secretReader);
  const sender: Sender = new Sender({
    ...options,
    ...deps,
    connections,
    secretReader,
    scheduleSeconds: options.retryScheduleSeconds,
  });
  const dispatcherOptions = {
    ...deps,
    arrivals,
    onReplay: replayNotifier.wake,
    onPosition(newPosition: bigint) {
      position = newPosition;
      reportStatus();
    },
  };
  const dispatcherLoop = createLoop("deliveries");
  const onStandby = () => {
    position = undefined;
    dispatcherLoop.report(null);
    reportStatus();
  };
  const dispatch = () =>
    withLeadership({ name: "webhook dispatcher", databaseUrl, logger, signal, onStandby }, (leadSignal) =>
      runDispatcher(dispatcherOptions, { ...dispatcherLoop, signal: leadSignal }),
    );
  const stream = deriveStreamNames(databaseUrl, nats.NATS_STREAM_REPLICAS);
  const followMessages = () =>
    withNats({ nats, name: "clinic webhooks", signal }, (connection, connectionSignal) =>
      arrivals.follow(connection, stream, connectionSignal),
    );
  const record = (events: readonly UnrecordedEvent[]) => waitUnlessAborted(recordEvents(options, events), signal);
  const recordState = async () => record([...(await findEndpointFailures(pool)), ...(await findEndedReplays(pool))]);
  const reportSecrets = async () => record(await findExpiringSecrets(pool, clock()));
  const continueAllReplays = async () => {
    const hasReplayed = await continueReplays(deps, clock);
    if (!hasReplayed) return false;
    searchNotifier.wake();
    await pause(REPLAY_BATCH_INTERVAL_MS, signal);
    return true;
  };
  const restart = () => pause(CHECK_INTERVAL_MS, signal);
  // A run of such a loop can take long, and the role works without NATS and without the log.
  const createUnreportedLoop = (name: string) => ({ ...createLoop(name), report: () => undefined });
  await Promise.all([
    session.run({ databaseUrl, applicationName: "webhooks", logger }, signal),
    revocations.run(createUnreportedLoop("revocations")),
    repeat(dispatcherLoop, dispatch, restart),
    repeat(createUnreportedLoop("messages"), followMessages, restart),
    sender.run(signal),
    repeat(createLoop("events"), recordState, () => pause(EVENTS_INTERVAL_MS, signal)),
    repeat(createLoop("secrets"), reportSecrets, () => pause(SECRETS_INTERVAL_MS, signal)),
    repeat(createLoop("replays"), continueAllReplays, () => replayNotifier.sleep(REPLAYS_INTERVAL_MS, signal)),
    runMaintenance({ ...deps, onClosed: options.onClosed }, signal),
  ]);
}
