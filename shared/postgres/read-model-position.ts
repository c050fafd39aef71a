import { setTimeout as delay } from "node:timers/promises";
import type pg from "pg";
import { type ConnectionUse, keepConnection, type LongLivedClientOptions } from "./long-lived-connection.ts";
import { READ_MODEL_SCHEMA } from "./read-model-schema.ts";

export const positionStatement = {
  name: "position of the read models",
  text: `SELECT position FROM ${READ_MODEL_SCHEMA}.checkpoint`,
};

export async function readPosition(pool: pg.Pool): Promise<bigint> {
  const { rows } = await pool.query<{ position: bigint }>(positionStatement);
  if (!rows[0]) throw new Error("The read models have no log position.");
  return rows[0].position;
}

const POLL_INTERVAL_MS = 3;

/** Interval between two reads while notifications report the position. */
const NOTIFIED_POLL_INTERVAL_MS = 20;

export interface PositionWatch {
  /**
   * @returns true if the read models reached the position in time
   * @throws the error of a failed read of the position
   */
  wait(position: bigint, timeoutMs: number): Promise<boolean>;
  /**
   * Reports the current position of the read models.
   *
   * @param position undefined if changes of the position are not reported
   */
  notify(position: bigint | undefined): void;
}

interface Wait {
  position: bigint;
  deadline: number;
  resolve(isReached: boolean): void;
  reject(error: unknown): void;
}

/**
 * Creates a watch of the read models' position. All concurrent waits share one series of reads. With notifications, most
 * waits need no read.
 */
export function createPositionWatch(readPosition: () => Promise<bigint>): PositionWatch {
  let waits: Wait[] = [];
  let isPolling = false;
  let notifiedPosition: bigint | undefined;

  function endWaits(position: bigint, nextReadAt: number): void {
    waits = waits.filter((wait) => {
      const isReached = position >= wait.position;
      if (!isReached && nextReadAt <= wait.deadline) return true;
      wait.resolve(isReached);
      return false;
    });
  }

  async function poll(): Promise<void> {
    isPolling = true;
    if (notifiedPosition !== undefined) await delay(NOTIFIED_POLL_INTERVAL_MS);
    while (waits.length > 0) {
      const intervalMs = notifiedPosition === undefined ? POLL_INTERVAL_MS : NOTIFIED_POLL_INTERVAL_MS;
      try {
        endWaits(await readPosition(), performance.now() + intervalMs);
      } catch (error) {
        for (const { reject } of waits) reject(error);
        waits = [];
      }
      if (waits.length > 0) await delay(intervalMs);
    }
    isPolling = false;
  }

  return {
    wait: (position, timeoutMs) =>
      new Promise((resolve, reject) => {
        if (notifiedPosition !== undefined && notifiedPosition >= position) return resolve(true);
        waits.push({ position, deadline: performance.now() + timeoutMs, resolve, reject });
        if (!isPolling) void poll();
      }),
    notify(position) {
      notifiedPosition = position;
      if (position !== undefined) endWaits(position, 0);
    },
  };
}

/**
 * Receives the log position of the read models on a separate connection. Each transaction that moves the position sends
 * a notification. The connection must be to the primary, because a standby refuses LISTEN. A standby may be behind the
 * notified position.
 *
 * @param onPosition called with the current position and each new position; with undefined if the connection is lost
 * @returns function that closes the connection
 */
export function listenForPositions(
  options: LongLivedClientOptions,
  onPosition: (position: bigint | undefined) => void,
): () => Promise<void> {
  const controller = new AbortController();
  const listenPromise = keepConnection(options, controller.signal, createPositionListener(onPosition));
  return () => {
    controller.abort();
    return listenPromise;
  };
}

/**
 * Creates callbacks that receive positions like {@link listenForPositions}, on a connection that may have further uses.
 */
export function createPositionListener(onPosition: (position: bigint | undefined) => void): ConnectionUse {
  let lastPosition: bigint | undefined;
  let notificationCount = 0;
  const report = (position: bigint | undefined) => {
    if (position !== lastPosition) onPosition(position);
    lastPosition = position;
  };
  return {
    async prepare(connection) {
      connection.on("notification", ({ payload = "" }) => {
        if (!/^\d+$/.test(payload)) return;
        notificationCount += 1;
        report(BigInt(payload));
      });
      await connection.query(`LISTEN ${READ_MODEL_SCHEMA}`);
    },
    async check(connection) {
      const countBefore = notificationCount;
      const { rows } = await connection.query<{ position: string }>(positionStatement);
      // A notification that arrived before the result may be newer than the result.
      if (rows[0] && notificationCount === countBefore) report(BigInt(rows[0].position));
    },
    onLoss: () => report(undefined),
    lossMessage: "Notifications about the read models are not received. This will be retried.",
  };
}
