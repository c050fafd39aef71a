import { randomUUID } from "node:crypto";
import type pg from "pg";
import { unavailable } from "../http/api-error.ts";
import { createBatches, QueueFullError } from "../runtime/batches.ts";
import type { Logger } from "../runtime/logger.ts";
import { withTimeout } from "../runtime/timeout.ts";
import { Outage } from "./outage.ts";
import { type Processes, registerProcess } from "./processes.ts";
import { addShared } from "./shared-counter.ts";
import { type Window, Windows } from "./windows.ts";

/** Result of counting a request. */
export interface Count {
  /**
   * Number of requests in the key's current window, including this request. It exceeds the limit if this request is
   * refused.
   */
  used: number;
  /** End of the window. It is the same for all requests of the window. Milliseconds since 1970. */
  endsAt: number;
  /** Time until the end of the window. Milliseconds. */
  endsIn: number;
}

/** Counts requests by key in time windows. The first request of a key starts a window. */
export interface RateLimiter {
  /**
   * Counts one request. Takes at most four seconds. If the window has already exceeded its limit, no statement is
   * sent to Postgres. @param key key of at most 200 characters @param limit requests per window @param window length
   * of the window in seconds, always the same for one key. The default is a minute
   *
   * @throws {ApiError} 503 `rate_limit_unavailable` if Postgres works but did not count the request in time
   */
  count(key: string, limit: number, window?: number): Promise<Count>;
  /** Stops the background work of the limiter. The caller closes the pool. */
  close(): void;
}

/** Default length of a window. Seconds. */
const MINUTE = 60;

/**
 * Time limit for counting in Postgres. It is longer than the server's statement timeout, so that a slow statement
 * fails with the server's error. Milliseconds.
 */
const COUNT_TIMEOUT_MS = 1_200;

/** Maximum number of requests of a key that may wait for their count, and that one statement may count. */
const MAX_REQUESTS = { maxWaiting: 2_000, maxBatch: 2_000 };

/**
 * Creates a limiter whose counts are shared by all processes, in Postgres. If Postgres is slow, a request waits for
 * its count and finally fails with 503, but is never permitted without being counted. If Postgres is unavailable,
 * each process permits its share of the requests that remained at the last known shared count.
 *
 * @param pool pool with a statement timeout of one second
 */
export function createRateLimiter(pool: pg.Pool, logger: Logger): RateLimiter {
  const processes = registerProcess(pool, logger);
  const counter = new Counter(pool, processes, logger);
  return {
    count: (key, limit, window = MINUTE) => counter.count(key, limit, window * 1_000),
    close: () => processes.close(),
  };
}

class Counter {
  readonly #pool: pg.Pool;
  readonly #processes: Processes;
  readonly #logger: Logger;
  readonly #windows = new Windows();
  readonly #inBatches = createBatches<null, Count>(MAX_REQUESTS);
  readonly #outage: Outage;

  constructor(pool: pg.Pool, processes: Processes, logger: Logger) {
    this.#pool = pool;
    this.#processes = processes;
    this.#logger = logger;
    const own = { key: `process ${randomUUID()}`, requests: 1, window: 1_000, known: undefined };
    this.#outage = new Outage({
      probe: () => addShared(pool, own),
      probeTimeoutMs: COUNT_TIMEOUT_MS,
      onEnd: () => void this.#addAll(),
      logger,
    });
  }

  /** @param length length of a new window. Milliseconds */
  async count(key: string, limit: number, length: number): Promise<Count> {
    const known = this.#windows.find(key);
    if (known && known.used > limit) return toCount(known, known.used);
    if (this.#outage.isOn()) return this.#countLocally(key, limit, length);
    try {
      return await this.#inBatches(key, null, (requests) => this.#add(key, requests.length, length));
    } catch (error) {
      const isFull = error instanceof QueueFullError;
      if (isFull || !(await this.#outage.isCauseOf(error)))
        throw unavailable("rate_limit_unavailable", error, 1);
      return this.#countLocally(key, limit, length);
    }
  }

  /**
   * Counts requests of a key in Postgres, together with requests that were permitted without Postgres during an
   * outage.
   */
  async #add(key: string, requests: number, length: number): Promise<Count[]> {
    if (this.#outage.isOn()) throw new Error("Postgres is unavailable");
    const windows = this.#windows;
    const known = windows.find(key);
    const taken = windows.takeUncounted(key);
    const addition = { key, requests: requests + taken, window: length, known };
    const shared = addShared(this.#pool, addition);
    const { used, endsAt, endsIn } = await withTimeout(COUNT_TIMEOUT_MS, shared).catch((error) => {
      windows.giveBack(key, taken);
      throw error;
    });
    const uncounted = windows.find(key)?.uncounted ?? 0;
    windows.set(key, { used, uncounted, length, endsAt, until: performance.now() + endsIn });
    return Array.from({ length: requests }, (_, index) => ({
      ...{ used: used - requests + 1 + index, endsAt, endsIn },
    }));
  }

  /** After an outage, adds the requests that this process permitted without Postgres to the shared counts. */
  async #addAll(): Promise<void> {
    try {
      for (const [key, { length }] of this.#windows.withUncounted()) await this.#add(key, 0, length);
    } catch (error) {
      // The remaining requests are added at the next count of their keys.
      this.#logger.debug({ error }, "not all requests that were permitted during an outage are counted yet");
    }
  }

  #countLocally(key: string, limit: number, length: number): Count {
    const window = this.#windows.find(key) ?? newWindow(length);
    const share = Math.floor(Math.max(0, limit - window.used) / Math.min(this.#processes.count(), limit));
    const isLet = window.uncounted < share;
    if (isLet) window.uncounted += 1;
    this.#windows.set(key, window);
    return toCount(window, isLet ? limit - share + window.uncounted : limit + 1);
  }
}

/**
 * Creates a window that ends at a multiple of its length, so that all processes have the same window without
 * Postgres.
 */
function newWindow(length: number): Window {
  const now = Date.now();
  const endsAt = (Math.floor(now / length) + 1) * length;
  return { used: 0, uncounted: 0, length, endsAt, until: performance.now() + endsAt - now };
}

function toCount({ endsAt, until }: Window, used: number): Count {
  return { used, endsAt, endsIn: Math.max(0, until - performance.now()) };
}
