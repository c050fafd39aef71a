import { createBackoff } from "../../../shared/runtime/backoff.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import type { LastError, RoleStatus } from "../../roles/role.ts";
import { toLastError } from "../../roles/role-status.ts";

/** Tracks which parts of a role currently fail, for the status of the role. */
export interface HealthTracker {
  /** Records the error of a part, or null if the part works. */
  report(part: string, error: unknown): void;
  status(): Pick<RoleStatus, "detail" | "lastError">;
}

interface PartContext {
  logger: Logger;
  health: HealthTracker;
  signal: AbortSignal;
}

export function createHealthTracker(): HealthTracker {
  const failingParts = new Set<string>();
  let lastError: LastError | undefined;
  return {
    report(part, error) {
      if (error === null) {
        failingParts.delete(part);
        return;
      }
      failingParts.add(part);
      const { message, at } = toLastError(error);
      lastError = { message: `${part}: ${message}`, at };
    },
    status: () => ({ detail: failingParts.size === 0 ? null : "waits", ...(lastError && { lastError }) }),
  };
}

/**
 * Runs a part of a role until the signal aborts. If the part throws an error, the part is restarted after a growing delay,
 * and the status of the role shows the error.
 *
 * @param run work of the part, which must call `markHealthy` after each success
 */
export async function retryForever(
  part: string,
  context: PartContext,
  run: (markHealthy: () => void) => Promise<void>,
): Promise<void> {
  const { logger, health, signal } = context;
  const wait = createBackoff({ firstMs: 100, maxMs: 3_000 });
  const markHealthy = () => {
    wait.reset();
    health.report(part, null);
  };
  while (!signal.aborted) {
    try {
      await run(markHealthy);
    } catch (error) {
      if (signal.aborted) return;
      logger.warn({ error, part }, "A part of the role failed and will be restarted.");
      health.report(part, error);
    }
    await wait.next(signal);
  }
}

/**
 * Repeats the work of a part until the signal aborts, like {@link retryForever}.
 *
 * @param work returns true if more work is left
 * @param rest waits before the next repetition; called when no work is left
 */
export function repeatForever(
  part: string,
  context: PartContext,
  work: () => Promise<boolean>,
  rest: () => Promise<void>,
): Promise<void> {
  return retryForever(part, context, async (markHealthy) => {
    while (!context.signal.aborted) {
      const hasMore = await work();
      markHealthy();
      if (!hasMore) await rest();
    }
  });
}
