import { setTimeout as delay } from "node:timers/promises";

/** Where the read models stand in the log. */
export const positionStatement = {
  name: "position of the read models",
  text: "SELECT position FROM read_model.checkpoint",
};

/** They are asked again after this. Milliseconds. */
const POLL_INTERVAL_MS = 15;

/**
 * Watches the read models catch up with the log.
 *
 * @param position in the log
 * @param within milliseconds
 * @returns whether the read models know of it in time
 * @throws what asking them throws
 */
export type PositionWatch = (position: bigint, timeoutMs: number) => Promise<boolean>;

/** @param ask for the read models' position; those who watch at one time share the answers */
export function createPositionWatch(readPosition: () => Promise<bigint>): PositionWatch {
  let reading: Promise<bigint> | undefined;
  const current = () => {
    reading ??= readPosition().finally(() => {
      reading = undefined;
    });
    return reading;
  };
  return async (position, timeoutMs) => {
    const until = performance.now() + timeoutMs;
    for (;;) {
      if ((await current()) >= position) return true;
      if (performance.now() + POLL_INTERVAL_MS > until) return false;
      await delay(POLL_INTERVAL_MS);
    }
  };
}
