import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { backoff } from "../../shared/runtime/backoff.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { LostCheckpoint, readRelayCheckpoint } from "../checkpoints/relay-checkpoint.ts";
import { DifferentLog, requireSameLog } from "../checkpoints/same-log.ts";
import { leadWithRecovery } from "../parking/lead-with-recovery.ts";
import type { Detail, Role, RoleStatus } from "../roles/role.ts";
import { failed, lastErrorNow } from "../roles/role-status.ts";
import { eventStreamOf } from "./event-stream.ts";
import { withNats } from "./nats-session.ts";
import { RelayStopped, runRelay } from "./relay-run.ts";

export interface RelayOptions {
  client: EventStoreDBClient;
  pool: pg.Pool;
  databaseUrl: string;
  natsUrl: string;
  logger: Logger;
}

/**
 * The role that tells public events to the dispatchers, over JetStream: one process leads, others stand by. It waits
 * for log, NATS and Postgres when they are out of reach. An event that it cannot map fails the role, with its place;
 * it goes on when an operator has parked the event's stream, or another process has got past it. A log that is not the
 * one behind the checkpoint fails the role too, until the log fits it again.
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
    const place = error instanceof RelayStopped ? error.place : undefined;
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

/** Relays until the signal aborts or another process does; what is out of reach is waited for. */
async function relayOn(
  options: RelayOptions,
  signal: AbortSignal,
  report: (status: RoleStatus) => void,
  onTaken: () => void,
): Promise<void> {
  const { client, pool, natsUrl, logger } = options;
  const stream = eventStreamOf(options.databaseUrl);
  const wait = backoff({ first: 100, most: 3_000 });
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
      if (error instanceof RelayStopped || error instanceof DifferentLog) throw error;
      if (error instanceof LostCheckpoint) {
        logger.warn({ error }, "another process relays; standing by");
        return;
      }
      if (signal.aborted) return;
      logger.warn({ error }, "relay waits");
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
 * Why a run ended. An event that cannot be mapped may be the fault of the log: if the log was exchanged since the event
 * came, its stream ends before it.
 */
async function orDifferentLog(options: RelayOptions, thrown: unknown): Promise<unknown> {
  if (!(thrown instanceof RelayStopped)) return thrown;
  return requireSameLog(options).then(
    () => thrown,
    (error: unknown) => error,
  );
}
