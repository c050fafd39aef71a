import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { UnreadableEvent } from "../../shared/eventstore/subscription.ts";
import { backoff } from "../../shared/runtime/backoff.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { withLeadership } from "../engine/leadership.ts";
import type { Role, RoleStatus } from "../role.ts";
import { eventStreamOf } from "./event-stream.ts";
import { withNats } from "./nats-session.ts";
import { LostCheckpoint } from "./relay-checkpoint.ts";
import { runRelay } from "./relay-run.ts";
import { RelayFailure } from "./to-message.ts";

export interface RelayOptions {
  client: EventStoreDBClient;
  pool: pg.Pool;
  databaseUrl: string;
  natsUrl: string;
  logger: Logger;
}

/**
 * The role that tells public events to the dispatchers, over JetStream: one process leads, others stand by. It waits
 * for log, NATS and Postgres when they are out of reach. An event that it cannot map fails the role, with its place.
 */
export function startRelay(options: RelayOptions): Role {
  const logger = options.logger.child({ role: "relay" });
  const ended = new AbortController();
  let status: RoleStatus = { state: "starting", detail: null };
  const lead = (signal: AbortSignal) =>
    relayOn({ ...options, logger }, signal, (next) => {
      status = next;
    });
  const done = withLeadership(
    {
      databaseUrl: options.databaseUrl,
      name: "webhook relay",
      logger,
      signal: ended.signal,
      onStandby: (detail) => {
        status = { state: "standby", detail };
      },
    },
    lead,
  ).catch((error: unknown) => {
    status = { ...status, state: "failed", detail: (error as Error).message };
    logger.fatal({ error }, "relay stopped");
  });
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
        runRelay(connection, { client, pool, stream, onProgress }, life),
      );
    } catch (error) {
      if (error instanceof RelayFailure || error instanceof UnreadableEvent) throw error;
      if (error instanceof LostCheckpoint) {
        logger.warn({ error }, "another process relays; standing by");
        return;
      }
      if (signal.aborted) return;
      logger.warn({ error }, "relay waits");
      report({
        state,
        detail: `waits: ${(error as Error).message}`,
        ...(position !== undefined && { position }),
      });
    }
    await wait.next(signal);
  }
}
