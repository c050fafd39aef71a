import { setTimeout as delay } from "node:timers/promises";
import { READ_MODEL_SCHEMA } from "./read-model-schema.ts";

/** Statement that selects the log position of the read models. */
export const positionStatement = {
  name: "position of the read models",
  text: `SELECT position FROM ${READ_MODEL_SCHEMA}.checkpoint`,
};

/** Interval between two reads of the read models' position. Milliseconds. */
const POLL_INTERVAL_MS = 3;

/**
 * Waits until the read models reach a log position.
 *
 * @param position log position
 * @param timeoutMs time limit in milliseconds
 * @returns true if the read models reached the position in time
 * @throws the error of a failed read of the position
 */
export type PositionWatch = (position: bigint, timeoutMs: number) => Promise<boolean>;

interface Wait {
  position: bigint;
  /** Time at which the wait ends, as a value of `performance.now()`. */
  deadline: number;
  resolve(isReached: boolean): void;
  reject(error: unknown): void;
}

/**
 * Creates a function that waits until the read models reach a position. All concurrent waits share one series of reads.
 *
 * @param readPosition reads the current position of the read models
 */
export function createPositionWatch(readPosition: () => Promise<bigint>): PositionWatch {
  let waits: Wait[] = [];
  let isPolling = false;

  function endWaits(position: bigint): void {
    const nextReadAt = performance.now() + POLL_INTERVAL_MS;
    waits = waits.filter((wait) => {
      const isReached = position >= wait.position;
      if (!isReached && nextReadAt <= wait.deadline) return true;
      wait.resolve(isReached);
      return false;
    });
  }

  async function poll(): Promise<void> {
    isPolling = true;
    while (waits.length > 0) {
      try {
        endWaits(await readPosition());
      } catch (error) {
        for (const { reject } of waits) reject(error);
        waits = [];
      }
      if (waits.length > 0) await delay(POLL_INTERVAL_MS);
    }
    isPolling = false;
  }

  return (position, timeoutMs) =>
    new Promise((resolve, reject) => {
      waits.push({ position, deadline: performance.now() + timeoutMs, resolve, reject });
      if (!isPolling) void poll();
    });
}
