import { setTimeout as sleep } from "node:timers/promises";

/** Default time limit in milliseconds. It is long enough for a busy machine. */
const DEFAULT_TIMEOUT_MS = 60_000;

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
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const value = await check();
    if (value !== undefined && value !== false) return value as Exclude<Value, undefined | false>;
    if (Date.now() > deadline) throw new Error(`${label}: not within ${timeoutMs} ms`);
    await sleep(20);
  }
}
