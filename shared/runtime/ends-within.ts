import { pause } from "./backoff.ts";

/**
 * Waits for something to end, for so many milliseconds at the most: a server that no longer answers does not answer a
 * goodbye either. What has not ended by then is left alone.
 *
 * @returns whether it ended
 * @throws what the work throws within the time
 */
export async function endsWithin(work: Promise<unknown>, milliseconds: number): Promise<boolean> {
  const timer = new AbortController();
  try {
    return await Promise.race([work.then(() => true), pause(milliseconds, timer.signal).then(() => false)]);
  } finally {
    timer.abort();
  }
}
