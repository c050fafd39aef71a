import { setTimeout as sleep } from "node:timers/promises";

/** Default time limit in milliseconds. It is long enough for a busy machine. */
const DEFAULT_TIMEOUT_MS = 60_000;

/** Shortest and longest pause between two checks. Milliseconds. */
const [MIN_PAUSE_MS, MAX_PAUSE_MS] = [20, 50];

/**
 * Part of the elapsed time that a pause may take. A long wait thus needs few checks, which take processor time from the
 * condition that it waits for.
 */
const PAUSE_SHARE = 0.05;

/**
 * Repeats the check until it returns a value other than undefined or false. Returns that value.
 *
 * @param label description of the expected condition, for the error message
 * @param timeoutMs time limit in milliseconds, after which the function throws
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
