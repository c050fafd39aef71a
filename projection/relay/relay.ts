import { createBackoff } from "../../shared/runtime/backoff.ts";
import { CheckpointLostError, readRelayCheckpoint } from "../checkpoints/relay-checkpoint.ts";
import { DifferentLogError } from "../checkpoints/same-log.ts";
import { leadWithRecovery } from "../quarantine/lead-with-recovery.ts";
import type { Detail, Role, RoleDeps, RoleStatus } from "../roles/role.ts";
import { toFailedStatus, toLastError } from "../roles/role.ts";
import { deriveStreamNames } from "./event-stream.ts";
import { withNats } from "./nats-session.ts";
import type { NatsSettings } from "./nats-settings.ts";
import { type RelayProgress, runRelay } from "./relay-run.ts";

interface RelayOptions extends RoleDeps {
  nats: NatsSettings;
}

/**
 * Starts the role that sends events to the dispatchers over JetStream. One process leads, and the others stand by. If
 * the log, NATS or Postgres is unavailable, the role waits. If the relay cannot create the message of an event, it
 * quarantines the event and continues. If the checkpoint belongs to another log, the role fails until log and database
 * match again.
 */
export function startRelay(options: RelayOptions): Role {
  const logger = options.logger.child({ role: "relay" });
  const controller = new AbortController();
  let status: RoleStatus = { state: "starting", detail: null, isLeader: false };
  const { signal } = controller;
  let eventCount = 0;
  const reportStatus = (newStatus: RoleStatus) => {
    status = { ...newStatus, eventCount, lastError: newStatus.lastError ?? status.lastError };
  };
  const onEventRead = () => {
    eventCount += 1;
  };
  const lead = (termSignal: AbortSignal) => {
    reportStatus({ state: "starting", detail: null, isLeader: true });
    const reportAsLeader = (newStatus: RoleStatus) => reportStatus({ ...newStatus, isLeader: true });
    return relayUntilLost({ ...options, logger }, termSignal, reportAsLeader, onEventRead);
  };
  const onStandby = (reason: Detail) => reportStatus({ state: "standby", detail: reason, isLeader: false });
  const onFailure = (error: unknown) => {
    reportStatus(toFailedStatus(status, error));
    const { position } = status;
    const hasCheckpointMoved = async () => (await readRelayCheckpoint(options.pool)).position !== position;
    return { failedEventPosition: undefined, hasCheckpointMoved };
  };
  const leadership = { name: "webhook relay", onStandby };
  const leadPromise = leadWithRecovery({ ...options, logger, signal, role: "relay", leadership, lead, onFailure });
  return {
    name: "relay",
    getStatus: () => status,
    async stop() {
      controller.abort();
      await leadPromise;
    },
  };
}

async function relayUntilLost(
  options: RelayOptions,
  signal: AbortSignal,
  reportStatus: (status: RoleStatus) => void,
  onEventRead: () => void,
): Promise<void> {
  const { client, pool, nats, logger } = options;
  const stream = deriveStreamNames(options.databaseUrl, nats.streamReplicas);
  const backoff = createBackoff({ firstMs: 100, maxMs: 3_000 });
  let state: RoleStatus["state"] = "starting";
  let position: bigint | undefined;
  const unavailableSince = new Map<string, number>();
  const onProgress = (progress: RelayProgress) => {
    position = progress.position;
    if (progress.isCaughtUp) {
      state = "running";
      backoff.reset();
    }
    const { backlog } = progress;
    reportStatus({ state, detail: progress.isCaughtUp ? null : "catching up", position, backlog });
  };
  while (!signal.aborted) {
    try {
      await withNats({ nats, name: "clinic relay", signal }, (connection, sessionSignal) =>
        runRelay(
          connection,
          { client, pool, stream, logger, onProgress, onEventRead, unavailableSince },
          sessionSignal,
        ),
      );
    } catch (error) {
      if (error instanceof DifferentLogError) throw error;
      if (error instanceof CheckpointLostError) {
        logger.warn({ error }, "Another process relays. This process stands by.");
        return;
      }
      if (signal.aborted) return;
      logger.warn({ error }, "The relay waits before it retries.");
      reportStatus({ state, detail: "waits", lastError: toLastError(error), position });
    }
    await backoff.pause(signal);
  }
}
