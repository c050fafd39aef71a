import { setTimeout as sleep } from "node:timers/promises";

/**
 * Waits until the check gives something other than undefined or false, and gives that.
 *
 * @param timeoutMs the deadline, after which it fails
 */
export async function eventually<Value>(
  what: string,
  check: () => Value | Promise<Value>,
  timeoutMs = 10_000,
): Promise<Exclude<Value, undefined | false>> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const value = await check();
    if (value !== undefined && value !== false) return value as Exclude<Value, undefined | false>;
    if (Date.now() > deadline) throw new Error(`${what}: not within ${timeoutMs} ms`);
    await sleep(20);
  }
}
