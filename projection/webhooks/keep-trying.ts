import { backoff } from "../../shared/runtime/backoff.ts";
import type { Logger } from "../../shared/runtime/logger.ts";

export interface Troubles {
  /** Why a part of the role does not get on; null where it does. */
  report(part: string, trouble: string | null): void;
  current(): string | null;
}

export function createTroubles(): Troubles {
  const troubles = new Map<string, string>();
  return {
    report(part, trouble) {
      if (trouble === null) troubles.delete(part);
      else troubles.set(part, trouble);
    },
    current() {
      return troubles.size === 0 ? null : [...troubles].map((entry) => entry.join(": ")).join("; ");
    },
  };
}

/**
 * Runs a part of a role until the signal aborts: when it throws, it is run again after a wait that grows, and the
 * role's status says why it does not get on.
 *
 * @param run calls `works` when it has got on
 */
export async function keepTrying(
  part: string,
  context: { logger: Logger; troubles: Troubles; signal: AbortSignal },
  run: (works: () => void) => Promise<void>,
): Promise<void> {
  const { logger, troubles, signal } = context;
  const wait = backoff({ first: 100, most: 3_000 });
  const works = () => {
    wait.reset();
    troubles.report(part, null);
  };
  while (!signal.aborted) {
    try {
      await run(works);
    } catch (error) {
      if (signal.aborted) return;
      logger.warn({ error, part }, "tries again");
      troubles.report(part, (error as Error).message);
    }
    await wait.next(signal);
  }
}
