import { setTimeout as delay } from "node:timers/promises";
import type pg from "pg";
import { LogUnavailableError } from "../../shared/eventstore/log.ts";
import { isPostgresUnavailable } from "../../shared/postgres/unavailable.ts";
import type { Logger } from "../../shared/runtime/logger.ts";

const POLL_INTERVAL_MS = 20;

const MAX_WAIT_MS = 2_000;

/**
 * Waits until the outbox contains no event of a stream of an endpoint or of its deliveries. Partners can see the cause
 * of such an event before the event is in the log. Does not wait while Postgres is unavailable.
 *
 * @throws {LogUnavailableError} if the outbox still contains an event after two seconds
 */
export type AwaitOutbox = (stream: string, endpointId: string) => Promise<void>;

export function createOutboxWaiter(pool: pg.Pool, logger: Logger): AwaitOutbox {
  const hasEvent = async (stream: string, endpointId: string) => {
    try {
      const { rowCount } = await pool.query({
        name: "outbox events of a stream",
        text: "SELECT FROM webhooks.outbox WHERE stream = $1 AND event->'data'->>'endpointId' = $2 LIMIT 1",
        values: [stream, endpointId],
      });
      return rowCount === 1;
    } catch (error) {
      if (!isPostgresUnavailable(error)) throw error;
      logger.warn({ error, stream }, "a command is decided without waiting for the outbox");
      return false;
    }
  };
  return async (stream, endpointId) => {
    const deadline = performance.now() + MAX_WAIT_MS;
    while (await hasEvent(stream, endpointId)) {
      if (performance.now() > deadline) throw new LogUnavailableError("an event has not left the outbox in time");
      await delay(POLL_INTERVAL_MS);
    }
  };
}
