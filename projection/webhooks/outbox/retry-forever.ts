import { backoff } from "../../../shared/runtime/backoff.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import type { LastError, RoleStatus } from "../../roles/role.ts";
import { lastErrorNow } from "../../roles/role-status.ts";

export interface HealthTracker {
  /** Why a part of the role does not get on; null where it does. */
  report(part: string, error: unknown): void;
  status(): Pick<RoleStatus, "detail" | "lastError">;
}

export function createHealthTracker(): HealthTracker {
  const hindered = new Set<string>();
  let lastError: LastError | undefined;
  return {
    report(part, error) {
      if (error === null) {
        hindered.delete(part);
        return;
      }
      hindered.add(part);
      const { message, at } = lastErrorNow(error);
      lastError = { message: `${part}: ${message}`, at };
    },
    status: () => ({ detail: hindered.size === 0 ? null : "waits", ...(lastError && { lastError }) }),
  };
}

/**
 * Runs a part of a role until the signal aborts: when it throws, it is run again after a wait that grows, and the
 * role's status says why it does not get on.
 *
 * @param run calls `works` when it has got on
 */
export async function retryForever(
  part: string,
  context: { logger: Logger; health: HealthTracker; signal: AbortSignal },
  run: (markHealthy: () => void) => Promise<void>,
): Promise<void> {
  const { logger, health, signal } = context;
  const wait = backoff({ first: 100, most: 3_000 });
  const markHealthy = () => {
    wait.reset();
    health.report(part, null);
  };
  while (!signal.aborted) {
    try {
      await run(markHealthy);
    } catch (error) {
      if (signal.aborted) return;
      logger.warn({ error, part }, "tries again");
      health.report(part, error);
    }
    await wait.next(signal);
  }
}
