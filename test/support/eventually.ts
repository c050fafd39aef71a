import { setTimeout as sleep } from "node:timers/promises";

/** Default time limit, long enough for a busy machine. Milliseconds. */
const DEFAULT_TIMEOUT_MS = 60_000;

/** Minimum and maximum pause between two checks. Milliseconds. */
const [MIN_PAUSE_MS, MAX_PAUSE_MS] = [20, 50];

/**
 * Pause as a share of the elapsed time. Long waits need fewer checks, which leaves CPU time for the awaited condition.
 */
const PAUSE_SHARE = 0.05;

/**
 * Repeats a check until it returns a value other than undefined or false. Returns this value.
 *
 * @param label expected condition, for the error message
 * @param timeoutMs time limit in milliseconds
 * @throws {Error} after the time limit
 */
export async function eventually<Value>(
  label: string,
  check: () => Value | Promise<Value>,
  timeoutMs = DEFAULT_TIMEOUT_MS,
): Promise<Exclude<Value, undefined | false>> {
  const startedAt = Date.now();
  for (;;) {
    const value = await check();
    if (value !== undefined && value !== false) return value as Exclude<Value, undefined | false>;
    const elapsedMs = Date.now() - startedAt;
    if (elapsedMs > timeoutMs) throw new Error(`${label}: not within ${timeoutMs} ms`);
    await sleep(Math.min(MAX_PAUSE_MS, Math.max(MIN_PAUSE_MS, elapsedMs * PAUSE_SHARE)));
  }
}
