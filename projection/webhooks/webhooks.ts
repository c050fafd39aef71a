import { setMaxListeners } from "node:events";
import { withLeadership } from "../../shared/postgres/leadership.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { runTaskGroup, waitUnlessAborted } from "../../shared/runtime/abort.ts";
import { createNotifier, pause } from "../../shared/runtime/backoff.ts";
import { type Loop, repeat, retry } from "../../shared/runtime/work.ts";
import { isFilled } from "../checkpoints/checkpoint.ts";
import { requireSameLog, watchSameLog } from "../checkpoints/same-log.ts";
import { deriveStreamNames } from "../relay/event-stream.ts";
import { withNats } from "../relay/nats-session.ts";
import {
  type LastError,
  type Role,
  type RoleStatus,
  runWithRecovery,
  toFailedStatus,
  toLastError,
} from "../roles/role.ts";
import type { WebhooksContext, WebhooksOptions } from "./context.ts";
import { runMaintenance } from "./maintenance.ts";
import { Arrivals, runDispatcher } from "./match/dispatcher.ts";
import { RevocationWatch } from "./match/revocations.ts";
import {
  findEndedReplays,
  findEndpointFailures,
  findExpiringSecrets,
  recordEvents,
  type UnrecordedEvent,
} from "./record/record-events.ts";
import { continueReplays } from "./replay/continue-replays.ts";
import { createSecretCache } from "./send/attempt-delivery.ts";
import { type Connections, createConnections } from "./send/connections.ts";
import { EgressProxy } from "./send/egress-proxy.ts";
import { Sender } from "./sender.ts";
import { WebhooksSession } from "./session.ts";

/** Each part of the role and its current pause listen for the end. */
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
export function startWebhooks(options: WebhooksOptions): Role {
  const logger = options.logger.child({ role: "webhooks" });
  const stopController = new AbortController();
  const { signal } = stopController;
  const { egressProxyUrl: url, connectTimeoutMs } = options;
  const connections = createConnections(url ? new EgressProxy({ url, connectTimeoutMs, logger }) : undefined);
  let getStatus = (): RoleStatus => ({ state: "starting", detail: null });
  const reportCheck = (error: unknown) => {
    if (error === null) return;
    const waitingStatus: RoleStatus = { state: "starting", detail: "waits", lastError: toLastError(error) };
    getStatus = () => waitingStatus;
  };
  const runParts = (groupSignal: AbortSignal) => {
    setMaxListeners(MAX_LISTENERS, groupSignal);
    const parts = startParts({ ...options, logger }, connections, groupSignal);
    getStatus = parts.getStatus;
    return parts.completion;
  };
  const run = async () => {
    const loop = { name: "check of the read models", logger, signal, report: reportCheck };
    await retry(loop, () => requireFilled(options, signal));
    await runTaskGroup(signal, [(groupSignal) => watchSameLog({ ...options, logger }, groupSignal), runParts]);
  };
  const onFailure = (error: unknown) => {
    const failedStatus = toFailedStatus(getStatus(), error);
    getStatus = () => failedStatus;
    return undefined;
  };
  const runPromise = runWithRecovery({ ...options, logger, signal, role: "webhooks", run, onFailure });
  return {
    name: "webhooks",
    getStatus: () => getStatus(),
    async stop() {
      stopController.abort();
      await runPromise;
      connections.close();
    },
  };
}

/**
 * Checks that the log matches the database, and that the read models are filled. Before, they contain states of the past,
 * such as a revoked installation that was later approved again.
 */
async function requireFilled(options: WebhooksOptions, signal: AbortSignal): Promise<void> {
  await waitUnlessAborted(requireSameLog(options), signal);
  if (!signal.aborted && !(await isFilled(options.pool, READ_MODEL_SCHEMA)))
    throw new Error("The read models are not filled yet.");
}

/** Starts the parts of the role, which work until the signal aborts. */
function startParts(
  options: WebhooksOptions,
  connections: Connections,
  signal: AbortSignal,
): { getStatus(): RoleStatus; completion: Promise<void> } {
  const { pool, nats, logger, databaseUrl } = options;
  const failingLoops = new Set<string>();
  let lastError: LastError | undefined;
  const createLoop = (name: string): Loop => ({
    name,
    logger,
    signal,
    report(error) {
      if (error === null) failingLoops.delete(name);
      else {
        failingLoops.add(name);
        const { message, at } = toLastError(error);
        lastError = { message: `${name}: ${message}`, at };
      }
    },
  });
  const context: WebhooksContext = {
    clock: Date.now,
    random: Math.random,
    ...options,
    connections,
    secretReader: createSecretCache(options.secretReader),
    createLoop,
    searchNotifier: createNotifier(),
    replayNotifier: createNotifier(),
    onDue: (endpoints) => sender.addDue(endpoints),
  };
  const { clock, searchNotifier, replayNotifier } = context;
  const arrivals = new Arrivals();
  const revocations = new RevocationWatch(context);
  const session = new WebhooksSession(pool, {
    onSenderGone: searchNotifier.wake,
    onPosition(readPosition) {
      revocations.setReadModelPosition(readPosition);
      arrivals.onPosition(readPosition);
    },
  });
  const sender = new Sender(context, session, revocations);
  let position: bigint | undefined;
  const setPosition = (newPosition: bigint) => {
    position = newPosition;
  };
  const dispatcherLoop = createLoop("deliveries");
  const onStandby = () => {
    position = undefined;
    dispatcherLoop.report(null);
  };
  const dispatch = () =>
    withLeadership({ name: "webhook dispatcher", databaseUrl, logger, signal, onStandby }, (leadSignal) =>
      runDispatcher(context, arrivals, setPosition, { ...dispatcherLoop, signal: leadSignal }),
    );
  const stream = deriveStreamNames(databaseUrl, nats.NATS_STREAM_REPLICAS);
  const followMessages = () =>
    withNats({ nats, name: "clinic webhooks", signal }, (connection, connectionSignal) =>
      arrivals.follow(connection, stream, connectionSignal),
    );
  const record = (events: readonly UnrecordedEvent[]) => waitUnlessAborted(recordEvents(context, events), signal);
  const recordState = async () => record([...(await findEndpointFailures(pool)), ...(await findEndedReplays(pool))]);
  const reportSecrets = async () => record(await findExpiringSecrets(pool, clock()));
  const continueAllReplays = async () => {
    const hasReplayed = await continueReplays(context);
    if (!hasReplayed) return false;
    searchNotifier.wake();
    await pause(REPLAY_BATCH_INTERVAL_MS, signal);
    return true;
  };
  const restart = () => pause(CHECK_INTERVAL_MS, signal);
  // A run of such a loop can take long, and the role works without NATS and without the log.
  const createUnreportedLoop = (name: string) => ({ ...createLoop(name), report: () => undefined });
  const completion = Promise.all([
    session.run({ databaseUrl, applicationName: "webhooks", logger }, signal),
    revocations.run(createUnreportedLoop("revocations")),
    repeat(dispatcherLoop, dispatch, restart),
    repeat(createUnreportedLoop("messages"), followMessages, restart),
    sender.run(signal),
    repeat(createLoop("events"), recordState, () => pause(EVENTS_INTERVAL_MS, signal)),
    repeat(createLoop("secrets"), reportSecrets, () => pause(SECRETS_INTERVAL_MS, signal)),
    repeat(createLoop("replays"), continueAllReplays, () => replayNotifier.sleep(REPLAYS_INTERVAL_MS, signal)),
    runMaintenance(context, signal),
  ]).then(() => undefined);
  return {
    getStatus: () => ({
      state: "running",
      detail: failingLoops.size === 0 ? null : "waits",
      isLeader: position !== undefined,
      position,
      lastError,
    }),
    completion,
  };
}
