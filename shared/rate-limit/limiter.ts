import { randomUUID } from "node:crypto";
import type pg from "pg";
import { unavailable } from "../http/api-error.ts";
import { createBatches, TooManyWaiting } from "../runtime/batches.ts";
import type { Logger } from "../runtime/logger.ts";
import { withTimeout } from "../runtime/timeout.ts";
import { watchOutage } from "./outage.ts";
import { registerProcess } from "./processes.ts";
import { addShared } from "./shared-counter.ts";
import { type Window, Windows } from "./windows.ts";

/** A request that was counted. */
export interface Count {
  /** Requests in the key's current window, this one included; more than the limit if it is refused. */
  used: number;
  /** The window's end, the same for all requests of one window. Milliseconds since 1970. */
  endsAt: number;
  /** The time until then. Milliseconds. */
  endsIn: number;
}

/** Counts requests in windows. A key's window starts with its first request. */
export interface RateLimiter {
  /**
   * Counts one request, within four seconds. A window that is over its limit is refused from memory.
   *
   * @param key at most 200 characters
   * @param limit requests a window
   * @param window its length in seconds, a minute if absent; a key always has the same
   * @throws {ApiError} 503 `rate_limit_unavailable` if Postgres works but did not count the request in time
   */
  count(key: string, limit: number, window?: number): Promise<Count>;
  /** Ends what the limiter does by itself. The pool is the caller's to end. */
  close(): void;
}

/** Seconds. */
const MINUTE = 60;

/**
 * Postgres has counted within this. Longer than the server gives a statement, whose own answer says more than silence.
 * Milliseconds.
 */
const COUNT_WITHIN = 1_200;

/** Requests of a key that may wait for their count, and that one statement counts. */
const MOST = { maxWaiting: 2_000, maxBatch: 2_000 };

/**
 * Creates a limiter whose counts are shared by all processes, in Postgres. If Postgres is slow, requests wait for their
 * count and are answered 503 after a while, but never let through uncounted. If it is out of order, each process
 * continues from the last shared count that it knows, with its share of what is left.
 *
 * @param pool its statements time out on the server after a second
 */
export function createRateLimiter(pool: pg.Pool, logger: Logger): RateLimiter {
  const windows = new Windows();
  const processes = registerProcess(pool, logger);
  const own = { key: `process ${randomUUID()}`, requests: 1, window: 1_000, known: undefined };
  const tryOut = () => addShared(pool, own);
  const outage = watchOutage({ tryOut, answerWithin: COUNT_WITHIN, onEnd: () => void addAll(), logger });
  const inBatches = createBatches<null, Count>(MOST);

  /** Counts the requests of a batch, and those of the key that were let through without Postgres. */
  async function send(key: string, requests: number, length: number): Promise<Count[]> {
    if (outage.isOn()) throw new Error("Postgres is out of order");
    const known = windows.find(key);
    const taken = windows.takeAlone(key);
    const addition = { key, requests: requests + taken, window: length, known };
    const { used, endsAt, endsIn } = await withTimeout(COUNT_WITHIN, addShared(pool, addition)).catch(
      (error) => {
        windows.giveBack(key, taken);
        throw error;
      },
    );
    const alone = windows.find(key)?.alone ?? 0;
    windows.set(key, { used, alone, endsAt, until: performance.now() + endsIn });
    return Array.from({ length: requests }, (_, index) => ({
      ...{ used: used - requests + 1 + index, endsAt, endsIn },
    }));
  }

  /** After an outage, adds what was counted alone, so that no process lets the same requests through again. */
  async function addAll(): Promise<void> {
    try {
      for (const key of windows.countedAlone()) await send(key, 0, MINUTE * 1_000);
    } catch (error) {
      // The rest is added when its keys are next counted.
      logger.debug({ error }, "requests counted during an outage are not all added");
    }
  }

  function countAlone(key: string, limit: number, length: number): Count {
    const window = windows.find(key) ?? newWindow(length);
    const share = Math.floor(Math.max(0, limit - window.used) / Math.min(processes.count(), limit));
    const isLet = window.alone < share;
    if (isLet) window.alone += 1;
    windows.set(key, window);
    return toCount(window, isLet ? limit - share + window.alone : limit + 1);
  }

  return {
    async count(key, limit, window = MINUTE) {
      const known = windows.find(key);
      if (known && known.used > limit) return toCount(known, known.used);
      const length = window * 1_000;
      if (outage.isOn()) return countAlone(key, limit, length);
      try {
        return await inBatches(key, null, (requests) => send(key, requests.length, length));
      } catch (error) {
        const isFull = error instanceof TooManyWaiting;
        if (isFull || !(await outage.follows(error))) throw unavailable("rate_limit_unavailable", error, 1);
        return countAlone(key, limit, length);
      }
    },
    close: () => processes.close(),
  };
}

/** Ends at a multiple of its length, so that processes that cannot ask each other have the same window. */
function newWindow(length: number): Window {
  const now = Date.now();
  const endsAt = (Math.floor(now / length) + 1) * length;
  return { used: 0, alone: 0, endsAt, until: performance.now() + endsAt - now };
}

function toCount({ endsAt, until }: Window, used: number): Count {
  return { used, endsAt, endsIn: Math.max(0, until - performance.now()) };
}
