import { createBackoff } from "../../../shared/runtime/backoff.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import { type LastError, type RoleStatus, toLastError } from "../../roles/role.ts";

/** Tracks which parts of a role are failing, for the role's status. */
export class HealthTracker {
  readonly #failingParts = new Set<string>();
  #lastError: LastError | undefined;

  /** Null means that the part works. */
  report(partName: string, error: unknown): void {
    if (error === null) {
      this.#failingParts.delete(partName);
      return;
    }
    this.#failingParts.add(partName);
    const { message, at } = toLastError(error);
    this.#lastError = { message: `${partName}: ${message}`, at };
  }

  getStatus(): Pick<RoleStatus, "detail" | "lastError"> {
    const detail = this.#failingParts.size === 0 ? null : "waits";
    return { detail, ...(this.#lastError && { lastError: this.#lastError }) };
  }
}

export interface PartContext {
  logger: Logger;
  health: HealthTracker;
  signal: AbortSignal;
}

/**
 * Runs a part of a role until the signal aborts. If the part throws an error, restarts the part after a delay and
 * reports the error in the role's status. The delay grows with each failure.
 *
 * @param run work of the part, which must call `markHealthy` after each success
 */
export async function retryForever(
  partName: string,
  context: PartContext,
  run: (markHealthy: () => void) => Promise<void>,
): Promise<void> {
  const { logger, health, signal } = context;
  const backoff = createBackoff({ firstMs: 100, maxMs: 3_000 });
  const markHealthy = () => {
    backoff.reset();
    health.report(partName, null);
  };
  while (!signal.aborted) {
    try {
      await run(markHealthy);
    } catch (error) {
      if (signal.aborted) return;
      logger.warn({ error, part: partName }, "A part of the role failed and will be restarted.");
      health.report(partName, error);
    }
    await backoff.pause(signal);
  }
}

/**
 * Repeats the work of a part until the signal aborts, like {@link retryForever}.
 *
 * @param run returns true if more work is left
 * @param pause waits until the next repetition; called when no work is left
 */
export function repeatForever(
  partName: string,
  context: PartContext,
  run: () => Promise<boolean>,
  pause: () => Promise<void>,
): Promise<void> {
  return retryForever(partName, context, async (markHealthy) => {
    while (!context.signal.aborted) {
      const hasMore = await run();
      markHealthy();
      if (!hasMore) await pause();
    }
  });
}
