import { randomUUID } from "node:crypto";
import type pg from "pg";
import type { Logger } from "../runtime/logger.ts";
import { removeEndedCounters } from "./shared-counter.ts";

const HEARTBEAT_INTERVAL_MS = 2_000;

const HEARTBEATS_PER_REMOVAL = 30;

/** Assumed number of processes before the first heartbeat: one process of each of the two services. */
const ASSUMED_PROCESS_COUNT = 2;

/**
 * Statement that records a heartbeat of this process and counts the other processes with a heartbeat in the last ten
 * seconds.
 */
const HEARTBEAT_STATEMENT = {
  name: "processes that count",
  text: `
    WITH gone AS (DELETE FROM rate_limit.process WHERE seen_at < now() - interval '1 minute'),
      here AS (
        INSERT INTO rate_limit.process (id, seen_at) VALUES ($1, now())
        ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at)
    SELECT count(*)::integer AS "otherProcesses" FROM rate_limit.process
    WHERE id <> $1 AND seen_at > now() - interval '10 seconds'`,
};

interface ProcessCount {
  /** Returns the last known number of processes that count requests, including this one. */
  count(): number;
  close(): void;
}

/** Registers this process in Postgres, and tracks the number of all processes that count requests. */
export function registerProcess(pool: pg.Pool, logger: Logger): ProcessCount {
  const id = randomUUID();
  let count = ASSUMED_PROCESS_COUNT;
  let heartbeatCount = 0;
  const recordHeartbeat = async () => {
    try {
      const { rows } = await pool.query<{ otherProcesses: number }>({ ...HEARTBEAT_STATEMENT, values: [id] });
      count = 1 + (rows[0]?.otherProcesses ?? 0);
      if (heartbeatCount % HEARTBEATS_PER_REMOVAL === 0) await removeEndedCounters(pool);
      heartbeatCount += 1;
    } catch (error) {
      // The level is debug, because the limiter already warns when it cannot count a request in Postgres.
      logger.debug({ error }, "number of processes that count requests could not be read");
    }
  };
  void recordHeartbeat();
  const timer = setInterval(recordHeartbeat, HEARTBEAT_INTERVAL_MS).unref();
  return { count: () => count, close: () => clearInterval(timer) };
}
