import { setTimeout as delay } from "node:timers/promises";

/** Where the read models stand in the log. */
export const positionStatement = {
  name: "position of the read models",
  text: "SELECT position FROM read_model.checkpoint",
};

/** They are asked again after this. Milliseconds. */
const ASK_EVERY = 15;

/**
 * Watches the read models catch up with the log.
 *
 * @param position in the log
 * @param within milliseconds
 * @returns whether the read models know of it in time
 * @throws what asking them throws
 */
export type PositionWatch = (position: bigint, within: number) => Promise<boolean>;

/** @param ask for the read models' position; those who watch at one time share the answers */
export function createPositionWatch(ask: () => Promise<bigint>): PositionWatch {
  let asking: Promise<bigint> | undefined;
  const current = () => {
    asking ??= ask().finally(() => {
      asking = undefined;
    });
    return asking;
  };
  return async (position, within) => {
    const until = performance.now() + within;
    for (;;) {
      if ((await current()) >= position) return true;
      if (performance.now() + ASK_EVERY > until) return false;
      await delay(ASK_EVERY);
    }
  };
}
