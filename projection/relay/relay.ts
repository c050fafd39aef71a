import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { createBackoff } from "../../shared/runtime/backoff.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { CheckpointLostError, readRelayCheckpoint } from "../checkpoints/relay-checkpoint.ts";
import { DifferentLogError, requireSameLog } from "../checkpoints/same-log.ts";
import { leadWithRecovery } from "../parking/lead-with-recovery.ts";
import type { Detail, Role, RoleStatus } from "../roles/role.ts";
import { failed, lastErrorNow } from "../roles/role-status.ts";
import { eventStreamOf } from "./event-stream.ts";
import { withNats } from "./nats-session.ts";
import { RelayStoppedError, runRelay } from "./relay-run.ts";

export interface RelayOptions {
  client: EventStoreDBClient;
  pool: pg.Pool;
  databaseUrl: string;
  natsUrl: string;
  logger: Logger;
}

/**
 * Starts the role that sends events to the dispatchers over JetStream. One process leads, others stand by. If log, NATS or
 * Postgres is unavailable, it waits. If it cannot map an event, the role fails at that event. It continues when an operator
 * parks the event's stream, or when another process moves the checkpoint. If the checkpoint belongs to another log, the
 * role fails until log and database match again.
 */
export function startRelay(options: RelayOptions): Role {
  const logger = options.logger.child({ role: "relay" });
  const ended = new AbortController();
  let status: RoleStatus = { state: "starting", detail: null, leads: false };
  const { signal } = ended;
  let events = 0;
  const report = (next: RoleStatus) => {
    const { lastError = status.lastError } = next;
    status = { ...next, events, ...(lastError && { lastError }) };
  };
  const onTaken = () => {
    events += 1;
  };
  const lead = (term: AbortSignal) => {
    report({ state: "starting", detail: null, leads: true });
    return relayOn({ ...options, logger }, term, (next) => report({ ...next, leads: true }), onTaken);
  };
  const onStandby = (detail: Detail) => report({ state: "standby", detail, leads: false });
  const onFailure = (error: unknown) => {
    const place = error instanceof RelayStoppedError ? error.place : undefined;
    report(failed(status, error, place));
    const { position } = status;
    const hasMoved = async () => (await readRelayCheckpoint(options.pool)).position !== position;
    return { place, hasMoved };
  };
  const leadership = { databaseUrl: options.databaseUrl, name: "webhook relay", onStandby };
  const done = leadWithRecovery({ ...options, logger, signal, role: "relay", leadership, lead, onFailure });
  return {
    name: "relay",
    status: () => status,
    async stop() {
      ended.abort();
      await done;
    },
  };
}

/** Relays until the signal aborts or another process relays. If a server is unavailable, it waits. */
async function relayOn(
  options: RelayOptions,
  signal: AbortSignal,
  report: (status: RoleStatus) => void,
  onTaken: () => void,
): Promise<void> {
  const { client, pool, natsUrl, logger } = options;
  const stream = eventStreamOf(options.databaseUrl);
  const wait = createBackoff({ firstMs: 100, maxMs: 3_000 });
  let state: RoleStatus["state"] = "starting";
  let position: bigint | undefined;
  const onProgress = (progress: { position: bigint; caughtUp: boolean }) => {
    position = progress.position;
    if (progress.caughtUp) {
      state = "running";
      wait.reset();
    }
    report({ state, detail: progress.caughtUp ? null : "catching up", position });
  };
  while (!signal.aborted) {
    try {
      await withNats({ url: natsUrl, name: "clinic relay", signal }, (connection, life) =>
        runRelay(connection, { client, pool, stream, onProgress, onTaken }, life),
      );
    } catch (thrown) {
      const error = await orDifferentLog(options, thrown);
      if (error instanceof RelayStoppedError || error instanceof DifferentLogError) throw error;
      if (error instanceof CheckpointLostError) {
        logger.warn({ error }, "Another process relays. This process stands by.");
        return;
      }
      if (signal.aborted) return;
      logger.warn({ error }, "The relay waits and tries again.");
      report({
        state,
        detail: "waits",
        lastError: lastErrorNow(error),
        ...(position !== undefined && { position }),
      });
    }
    await wait.next(signal);
  }
}

/**
 * Returns the error that ended a run. An event may be impossible to map because the log was replaced after it was read:
 * then its stream ends before it, and the error is a {@link DifferentLogError}.
 */
async function orDifferentLog(options: RelayOptions, thrown: unknown): Promise<unknown> {
  if (!(thrown instanceof RelayStoppedError)) return thrown;
  return requireSameLog(options).then(
    () => thrown,
    (error: unknown) => error,
  );
}
