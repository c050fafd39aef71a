import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { createEventLog } from "../../shared/eventstore/log.ts";
import { backoff } from "../../shared/runtime/backoff.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { withLeadership } from "../engine/leadership.ts";
import { untilParked } from "../parking/until-parked.ts";
import type { Detail, Role, RoleStatus } from "../role.ts";
import { lastErrorNow } from "../status/last-error.ts";
import { eventStreamOf } from "./event-stream.ts";
import { withNats } from "./nats-session.ts";
import { LostCheckpoint, readRelayCheckpoint } from "./relay-checkpoint.ts";
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
 * it goes on when an operator has parked the event's stream, or another process has got past it.
 */
export function startRelay(options: RelayOptions): Role {
  const logger = options.logger.child({ role: "relay" });
  const ended = new AbortController();
  let status: RoleStatus = { state: "starting", detail: null };
  const { signal } = ended;
  const log = createEventLog(options.client);
  let events = 0;
  const report = (next: RoleStatus) => {
    const { lastError = status.lastError } = next;
    status = { ...next, events, ...(lastError && { lastError }) };
  };
  const onTaken = () => {
    events += 1;
  };
  const lead = (term: AbortSignal) => relayOn({ ...options, logger }, term, report, onTaken);
  const onStandby = (detail: Detail) => report({ state: "standby", detail });
  const leadership = { databaseUrl: options.databaseUrl, name: "webhook relay", logger, signal, onStandby };
  const done = (async () => {
    while (!signal.aborted) {
      try {
        await withLeadership(leadership, lead);
      } catch (error) {
        const stopped = error as RelayStopped;
        report({
          ...status,
          state: "failed",
          detail: null,
          lastError: lastErrorNow(stopped),
          failedAt: stopped.place,
        });
        logger.fatal({ error }, "relay stopped");
        const stood = status.position;
        const hasMoved = async () => (await readRelayCheckpoint(options.pool)) !== stood;
        const at = { by: "relay", place: stopped.place } as const;
        await untilParked({ log, ...at, orElse: hasMoved, logger }, signal);
        if (!signal.aborted) logger.info("relay tries again");
      }
    }
  })();
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
    } catch (error) {
      if (error instanceof RelayStopped) throw error;
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
