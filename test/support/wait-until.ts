import { setTimeout as delay } from "node:timers/promises";

/**
 * Asks again and again until the answer is not undefined or false, and gives it back.
 *
 * @param what for the message when the time is up
 * @param within milliseconds
 */
export async function waitUntil<T>(
  what: string,
  ask: () => Promise<T | undefined | false> | T | undefined | false,
  within = 10_000,
): Promise<T> {
  const deadline = performance.now() + within;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined && answer !== false) return answer;
    if (performance.now() > deadline) throw new Error(`${what}: not within ${within} ms`);
    await delay(10);
  }
}
