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

/**
 * Creates a function that waits until the read models reach a position. Concurrent waits share their reads of the
 * position.
 *
 * @param readPosition reads the current position of the read models
 */
export function createPositionWatch(readPosition: () => Promise<bigint>): PositionWatch {
  let pendingRead: Promise<bigint> | undefined;
  const readSharedPosition = () => {
    pendingRead ??= readPosition().finally(() => {
      pendingRead = undefined;
    });
    return pendingRead;
  };
  return async (position, timeoutMs) => {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      if ((await readSharedPosition()) >= position) return true;
      if (performance.now() + POLL_INTERVAL_MS > deadline) return false;
      await delay(POLL_INTERVAL_MS);
    }
  };
}
