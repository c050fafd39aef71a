import { setMaxListeners } from "node:events";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { onAbort, waitUnlessAborted } from "../../shared/runtime/abort.ts";
import { createNotifier, pause } from "../../shared/runtime/backoff.ts";
import { isFilled } from "../checkpoints/checkpoint.ts";
import { DifferentLogError, requireSameLog, waitForSameLog } from "../checkpoints/same-log.ts";
import { deriveStreamNames } from "../relay/event-stream.ts";
import { withNats } from "../relay/nats-session.ts";
import type { NatsSettings } from "../relay/nats-settings.ts";
import type { Role, RoleDeps, RoleStatus } from "../roles/role.ts";
import { toFailedStatus, toLastError } from "../roles/role.ts";
import { runMaintenance } from "./maintenance.ts";
import { runDispatcher } from "./match/dispatcher.ts";
import type { MatchDeps } from "./match/match-event.ts";
import type { ClosedStatus } from "./record/close-deliveries.ts";
import { drainOutbox } from "./record/drain-outbox.ts";
import type { OutboxEvent } from "./record/outbox.ts";
import { HealthTracker, repeatForever, retryForever } from "./record/retry-forever.ts";
import { continueReplays } from "./replay/continue-replays.ts";
import { type DueEndpoint, DueEndpoints } from "./schedule/due.ts";
import { type AttemptOptions, createSecretCache } from "./send/attempt-delivery.ts";
import { type Connections, createConnections } from "./send/connections.ts";
import { EgressProxy } from "./send/egress-proxy.ts";
import { Sender } from "./sender.ts";
import { WebhooksSession } from "./session.ts";

export interface WebhooksOptions extends RoleDeps, Omit<AttemptOptions, "connections"> {
  nats: NatsSettings;
  /** Seconds before each retry. */
  retryScheduleSeconds: readonly number[];
  /** Reads and appends events. */
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
  /** Called for each event that cannot be appended, because its stream was deleted. */
  onDiscarded?(): void;
  /** Milliseconds since 1970. */
  clock?: () => number;
  /** Returns a random number from 0 inclusive to 1 exclusive. */
  random?: () => number;
}

/** Each part of the role and its current pause listen for the end. */
const MAX_LISTENERS = 30;

/** Pauses of the role's background loops while no work is left. */
const OUTBOX_INTERVAL_MS = 1_000;
const REPLAYS_INTERVAL_MS = 1_000;

/** Minimum pause between two batches of a replay. */
const REPLAY_BATCH_INTERVAL_MS = 200;

/** Pause between two checks that the event log matches the database. */
const LOG_CHECK_INTERVAL_MS = 1_000;

/**
 * Starts the role that delivers webhooks. The role turns messages from JetStream into deliveries, sends due deliveries,
 * appends the events in the outbox to the log, and deletes old deliveries. Any number of processes can run the role at
 * the same time. If a server is unavailable, the role waits.
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
  const onCheckFailed = (error: unknown) => {
    logger.warn({ error }, "Webhooks wait until the read models are filled and match the event log.");
    const waitingStatus: RoleStatus = { state: "starting", detail: "waits", lastError: toLastError(error) };
    getStatus = () => waitingStatus;
  };
  const runPromise = (async () => {
    while (!signal.aborted) {
      const logDifference = await runUntilDifferentLog({ ...options, logger, onCheckFailed }, signal, (termSignal) => {
        const parts = startParts({ ...options, logger }, connections, termSignal);
        getStatus = parts.getStatus;
        return parts.completion;
      });
      if (!logDifference) return;
      const stoppedStatus = toFailedStatus(getStatus(), logDifference);
      getStatus = () => stoppedStatus;
      logger.fatal({ error: logDifference }, "webhooks stopped");
      await waitForSameLog({ ...options, logger }, signal);
    }
  })();
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
 * Checks repeatedly that the event log matches the database. Starts `run` after the first successful check, if the read
 * models are filled. Aborts `run` when the log no longer matches.
 *
 * @param options.onCheckFailed called with each error until a check succeeds. From then on, the parts of the role
 *   report unavailable servers
 * @returns the error of the check that ended `run`, or undefined if the signal aborted
 */
async function runUntilDifferentLog(
  options: WebhooksOptions & { onCheckFailed(error: unknown): void },
  signal: AbortSignal,
  run: (termSignal: AbortSignal) => Promise<unknown>,
): Promise<DifferentLogError | undefined> {
  const termController = new AbortController();
  setMaxListeners(MAX_LISTENERS, termController.signal);
  const endTerm = () => termController.abort();
  const removeListener = onAbort(signal, endTerm);
  let logDifference: DifferentLogError | undefined;
  let runPromise: Promise<unknown> | undefined;
  while (!signal.aborted && !logDifference) {
    try {
      await waitUnlessAborted(requireSameLog(options), signal);
      if (!runPromise) await waitUnlessAborted(requireFilled(options), signal);
      if (!signal.aborted) runPromise ??= run(termController.signal);
    } catch (error) {
      if (error instanceof DifferentLogError) logDifference = error;
      else if (!runPromise) options.onCheckFailed(error);
      else options.logger.debug({ error }, "Cannot check whether the event log matches the database.");
    }
    if (!logDifference) await pause(LOG_CHECK_INTERVAL_MS, signal);
  }
  endTerm();
  removeListener();
  await runPromise;
  return logDifference;
}

/**
 * Checks that the read models are filled. Before, they contain states of the past, such as a revoked installation that
 * was later approved again.
 *
 * @throws an error if they are not filled
 */
async function requireFilled({ pool }: WebhooksOptions): Promise<void> {
  if (!(await isFilled(pool, READ_MODEL_SCHEMA))) throw new Error("The read models are not filled yet.");
}

/** Starts the parts of the role, which work until the signal aborts. */
function startParts(
  options: WebhooksOptions,
  connections: Connections,
  signal: AbortSignal,
): { getStatus(): RoleStatus; completion: Promise<unknown> } {
  const { client, pool, nats, logger, clock = Date.now, random = Math.random } = options;
  const health = new HealthTracker();
  const dueEndpoints = new DueEndpoints();
  const [searchNotifier, outboxNotifier] = [createNotifier(), createNotifier()];
  const session = new WebhooksSession(pool, searchNotifier.wake);
  const requireLog = async () => void (await requireSameLog({ client, pool }));
  const deps = {
    client,
    pool,
    log: options.log,
    requireLog,
    stream: deriveStreamNames(options.databaseUrl, nats.streamReplicas),
    logger,
    health,
    clock,
    random,
    dueEndpoints,
    searchNotifier,
    session,
    onDue: (endpoints: readonly DueEndpoint[]) => dueEndpoints.add(endpoints),
    onReplay: searchNotifier.wake,
    onOutboxEvents: outboxNotifier.wake,
  };
  const secretReader = createSecretCache(options.secretReader);
  const sender = new Sender({
    ...options,
    ...deps,
    connections,
    secretReader,
    scheduleSeconds: options.retryScheduleSeconds,
  });
  const claimInserted: MatchDeps["claimInserted"] = (client, endpoints) => sender.claimInserted(client, endpoints);
  let hasConnected = false;
  const dispatch = (markHealthy: () => void) =>
    withNats({ nats, name: "clinic webhooks", signal }, (connection, connectionSignal) => {
      hasConnected = true;
      return runDispatcher(connection, { ...deps, claimInserted }, markHealthy, connectionSignal);
    });
  const onDiscarded = ({ id: eventId, stream, event: { type } }: OutboxEvent) => {
    logger.error({ eventId, stream, type }, "An event was discarded, because its stream was deleted from the log.");
    options.onDiscarded?.();
  };
  const drainOptions = { pool, log: options.log, logger, requireLog, onDiscarded };
  const drain = async () => (await waitUnlessAborted(drainOutbox(drainOptions), signal)) ?? false;
  const continueAllReplays = async () => {
    const hasReplayed = await continueReplays(deps, clock);
    if (!hasReplayed) return false;
    searchNotifier.wake();
    outboxNotifier.wake();
    await pause(REPLAY_BATCH_INTERVAL_MS, signal);
    return true;
  };
  const context = { logger, health, signal };
  const completion = Promise.all([
    session.run({ databaseUrl: options.databaseUrl, applicationName: "webhooks", logger }, signal),
    retryForever("messages", context, dispatch),
    sender.run(signal),
    repeatForever("outbox", context, drain, () => outboxNotifier.sleep(OUTBOX_INTERVAL_MS, signal)),
    repeatForever("replays", context, continueAllReplays, () => pause(REPLAYS_INTERVAL_MS, signal)),
    runMaintenance({ ...deps, onClosed: options.onClosed }, context),
  ]);
  return { getStatus: () => ({ state: hasConnected ? "running" : "starting", ...health.getStatus() }), completion };
}
