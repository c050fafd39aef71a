import { setTimeout as sleep } from "node:timers/promises";

/** A condition that holds within a moment on an idle machine holds within this on a busy one. Milliseconds. */
const DEFAULT_TIMEOUT_MS = 60_000;

/**
 * Waits until the check gives something other than undefined or false, and gives that.
 *
 * @param timeoutMs the deadline, after which it fails
 */
export async function eventually<Value>(
  what: string,
  check: () => Value | Promise<Value>,
  timeoutMs = DEFAULT_TIMEOUT_MS,
): Promise<Exclude<Value, undefined | false>> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const value = await check();
    if (value !== undefined && value !== false) return value as Exclude<Value, undefined | false>;
    if (Date.now() > deadline) throw new Error(`${what}: not within ${timeoutMs} ms`);
    await sleep(20);
  }
}
