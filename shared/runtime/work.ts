import { createBackoff } from "./backoff.ts";
import { classify } from "./failures.ts";
import type { Logger } from "./logger.ts";

export interface Loop {
  /** Name of the loop in log lines. */
  name: string;
  logger: Logger;
  signal: AbortSignal;
  /** Called with each error, and with null after each success. */
  report(error: unknown): void;
}

export interface Work<Item> {
  /**
   * Waits for items, and returns the next items to handle; undefined at the end, for example after an abort. Called
   * again only if all items of the previous call were handled or set aside.
   */
  take(): Promise<readonly Item[] | undefined>;
  /** Handles all items together, or none. May be called again with the same items, because a response can be lost. */
  handle(items: readonly Item[]): Promise<void>;
  /**
   * Called for an item that fails although the servers respond. Records the item, so that the loop can skip it.
   *
   * @throws an error to stop the loop instead
   */
  setAside(item: Item, error: unknown): Promise<void> | void;
  /**
   * Runs a small transaction to test the server, after a single item has timed out several times. The loop skips the
   * item only if the probe succeeds quickly. Without a probe, the loop keeps trying the item.
   */
  probe?(): Promise<unknown>;
}

/**
 * Handles items until there are no more, or the signal aborts. {@link classify} decides what a failure means. If a
 * server fails, tries the same items again, so that no item is lost. If an item fails, skips only this item, with
 * `setAside`. The first failure of a server after an abort ends the loop.
 *
 * @throws an error after which the loop must stop
 */
export async function runWork<Item>(work: Work<Item>, loop: Loop): Promise<void> {
  const handle = (items: readonly Item[]) => {
    let timeoutCount = 0;
    return retry(
      loop,
      () => work.handle(items),
      async (error) => {
        const kind = classify(error);
        if (kind !== "slow" || items.length > 1) return kind === "server";
        timeoutCount += 1;
        return timeoutCount < MAX_TIMEOUTS || !(await isFast(work.probe));
      },
    );
  };
  const setAside = (item: Item, error: unknown) => retry(loop, async () => work.setAside(item, error));
  try {
    for (;;) {
      const items = await retry(loop, work.take);
      if (!items) return;
      await divide(items, { handle, setAside });
    }
  } catch (error) {
    if (!loop.signal.aborted) throw error;
  }
}

async function isFast(probe: Work<unknown>["probe"]): Promise<boolean> {
  const startedAt = performance.now();
  try {
    await probe?.();
  } catch {
    return false;
  }
  return probe !== undefined && performance.now() - startedAt < FAST_MS;
}

/** Duration above which a probe counts as slow. */
const FAST_MS = 1_000;

/** Number of times that a single item must exceed the time limit of a statement before the loop skips the item. */
const MAX_TIMEOUTS = 3;

/**
 * Handles items together. If an item may be the cause of a failure, handles each half separately, so that the failing
 * item does not delay the other items. Calls `setAside` for an item that fails alone.
 *
 * @throws a failure that concerns all items, and without `setAside` the failure of an item
 */
export async function divide<Item>(
  items: readonly Item[],
  work: Pick<Work<Item>, "handle"> & Partial<Pick<Work<Item>, "setAside">>,
): Promise<void> {
  if (items.length === 0) return;
  try {
    await work.handle(items);
  } catch (error) {
    if (!["item", "slow"].includes(classify(error)) || (items.length === 1 && !work.setAside)) throw error;
    if (items.length === 1) return work.setAside?.(items[0] as Item, error);
    const middle = Math.ceil(items.length / 2);
    await divide(items.slice(0, middle), work);
    await divide(items.slice(middle), work);
  }
}

/**
 * Repeats a job until the signal aborts. Retries the job after each error, because there is no item to skip.
 *
 * @param run returns true if more work is left
 * @param pause waits until the next repetition; called when no work is left
 */
export async function repeat(loop: Loop, run: () => Promise<unknown>, pause: () => Promise<void>): Promise<void> {
  while (!loop.signal.aborted) {
    const hasMore = await retry(loop, run, () => true).catch(() => false); // only if the signal aborts
    if (hasMore !== true) await pause();
  }
}

/**
 * Runs a task for each item, up to 8 at a time by default. After an error or an abort, no further task starts.
 *
 * @throws the first error, after all started tasks have ended
 */
export async function forEachConcurrently<Item>(
  items: Iterable<Item>,
  run: (item: Item) => Promise<void>,
  { limit = 8, signal }: { limit?: number; signal?: AbortSignal } = {},
): Promise<void> {
  const failures: unknown[] = [];
  const remainingItems = [...items].values();
  const runRemaining = async () => {
    for (const item of remainingItems) {
      if (signal?.aborted || failures.length > 0) return;
      await run(item).catch((error) => failures.push(error));
    }
  };
  await Promise.all(Array.from({ length: limit }, runRemaining));
  if (failures.length > 0) throw failures[0];
}

const RETRY_DELAYS_MS = { firstMs: 100, maxMs: 3_000 };

/** If a run lasts longer than this time before it fails, the next wait is the shortest wait again. */
const LONG_RUN_MS = 60_000;

/**
 * Calls `run` until it succeeds, and waits after each failure. By default, retries unless an item is the cause or the
 * loop must stop.
 *
 * @throws an error that `shouldRetry` rejects, and the signal's reason if the signal aborts before a retry
 */
export async function retry<Result>(
  { name, logger, signal, report }: Loop,
  run: () => Promise<Result>,
  shouldRetry: (error: unknown) => boolean | Promise<boolean> = (error) => ["server", "slow"].includes(classify(error)),
): Promise<Result> {
  const backoff = createBackoff(RETRY_DELAYS_MS);
  for (;;) {
    const startedAt = performance.now();
    try {
      const result = await run();
      report(null);
      return result;
    } catch (error) {
      if (!(await shouldRetry(error))) throw error;
      // The error itself would let `divide` set a slow item aside.
      signal.throwIfAborted();
      logger.warn({ error, loop: name }, "A loop failed and will be retried.");
      report(error);
    }
    if (performance.now() - startedAt > LONG_RUN_MS) backoff.reset();
    await backoff.pause(signal);
    signal.throwIfAborted();
  }
}
