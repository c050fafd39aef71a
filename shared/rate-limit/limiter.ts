import { randomUUID } from "node:crypto";
import type pg from "pg";
import { createUnavailableError } from "../http/api-error.ts";
import { createBatcher, QueueFullError } from "../runtime/batches.ts";
import { Circuit } from "../runtime/circuit.ts";
import { isPostgresSlow } from "../runtime/failures.ts";
import type { Logger } from "../runtime/logger.ts";
import { TimeoutError } from "../runtime/timeout.ts";
import {
  addRequests,
  COUNT_TIMEOUT_MS,
  type Count,
  createRequestAdder,
  removeEndedCounters,
} from "./shared-counter.ts";
import { type Window, Windows } from "./windows.ts";

/** Counts requests by key in time windows. The first request of a key starts a window. */
export interface RateLimiter {
  /**
   * Counts one request. Takes at most four seconds. If the key has already exceeded the limit in this window, no
   * statement is sent to Postgres.
   *
   * @param key key of at most 200 characters: the name of the limit, a space, and what the limit applies to
   * @param windowSeconds length of the window in seconds, always the same for one key. The default is a minute
   * @throws {ApiError} 503 `rate_limit_unavailable` if Postgres works but did not count the request in time
   */
  count(key: string, limit: number, windowSeconds?: number): Promise<Count>;
  /** Returns the count of a key that is known to have exceeded the limit, otherwise undefined. Counts nothing. */
  findExcess(key: string, limit: number): Count | undefined;
  /**
   * Takes back one counted request, unless its window has ended.
   *
   * @param count result of `count` for this request, which must not exceed the limit
   * @param windowSeconds as for `count`
   * @throws {ApiError} 503 `rate_limit_unavailable`
   */
  release(key: string, count: Count, windowSeconds: number): Promise<void>;
  /** Stops the background work of the limiter. The caller closes the pool. */
  close(): void;
}

export interface RateLimitEvents {
  /** Called for each request that exceeds a limit, with the name of the limit, such as `installation`. */
  onRefusal(limitName: string): void;
  /** Called for each request that is counted only in this process, because Postgres is unavailable. */
  onFallback(): void;
}

export const DEFAULT_WINDOW_SECONDS = 60;

/** Limits for each key: how many requests may wait to be counted, and how many one statement may count. */
const BATCH_LIMITS = { maxWaitingItems: 2_000, maxBatchSize: 2_000 };

/**
 * Creates a limiter that shares its counts with all other processes through Postgres. If Postgres is slow, a request
 * waits to be counted, and fails with 503 if this takes too long. A request is never permitted without being counted.
 * If Postgres is unavailable, each process permits an equal share of the requests that remained when Postgres last
 * responded.
 *
 * @param pool pool with a statement timeout of one second
 */
export function createRateLimiter(pool: pg.Pool, logger: Logger, events?: RateLimitEvents): RateLimiter {
  const processCounter = registerProcess(pool, logger);
  const windows = new Windows();
  const addToBatch = createBatcher<null, Count>(BATCH_LIMITS);
  const addToShared = createRequestAdder(pool);
  const probeIncrement = { key: `process ${randomUUID()}`, requests: 1, windowMs: 1_000, window: undefined };
  const outage = new Outage({
    probe: () => addRequests(pool, probeIncrement),
    probeTimeoutMs: COUNT_TIMEOUT_MS,
    onEnd: () => void addUncountedRequests(),
    logger,
  });

  /**
   * Counts requests of a key in Postgres, together with requests that were permitted without Postgres during an
   * outage.
   */
  async function addInPostgres(key: string, requestCount: number, windowMs: number): Promise<Count[]> {
    if (outage.isActive()) throw new Error("Postgres is unavailable");
    const window = windows.find(key);
    const outageRequestCount = windows.takeUncountedRequests(key);
    const totalRequestCount = requestCount + outageRequestCount;
    const addition = { key, requests: totalRequestCount, windowMs, window };
    const { used, endsAt, endsInMs } = await addToShared(addition).catch((error) => {
      windows.restoreUncountedRequests(key, outageRequestCount);
      throw error;
    });
    const uncountedRequests = windows.find(key)?.uncountedRequests ?? 0;
    windows.set(key, { used, uncountedRequests, lengthMs: windowMs, endsAt, expiresAt: performance.now() + endsInMs });
    const usedBefore = used - requestCount;
    return Array.from({ length: requestCount }, (_, index) => ({ used: usedBefore + 1 + index, endsAt, endsInMs }));
  }

  /** After an outage, adds this process's uncounted requests to the shared counts. */
  async function addUncountedRequests(): Promise<void> {
    try {
      for (const [key, { lengthMs }] of windows.listUncountedWindows()) await addInPostgres(key, 0, lengthMs);
    } catch (error) {
      // If Postgres fails again, the counts are added after that outage, or else at the key's next request.
      await outage.isCauseOf(error);
      logger.debug({ error }, "some requests that were permitted during an outage are not counted yet");
    }
  }

  function countLocally(key: string, limit: number, windowMs: number): Count {
    events?.onFallback();
    const window = windows.findOrStart(key, windowMs);
    const processLimit = Math.floor(Math.max(0, limit - window.used) / Math.min(processCounter.count(), limit));
    const isPermitted = window.uncountedRequests < processLimit;
    if (isPermitted) window.uncountedRequests += 1;
    return toCount(window, isPermitted ? limit - processLimit + window.uncountedRequests : limit + 1);
  }

  function findExcess(key: string, limit: number): Count | undefined {
    const window = windows.find(key);
    if (!window || window.used <= limit) return undefined;
    events?.onRefusal(getLimitName(key));
    return toCount(window, window.used);
  }

  /** Counts a request of a key that is not known to have exceeded its limit. */
  async function countRequest(key: string, limit: number, windowMs: number): Promise<Count> {
    if (outage.isActive()) return countLocally(key, limit, windowMs);
    try {
      return await addToBatch(key, null, (requests) => addInPostgres(key, requests.length, windowMs));
    } catch (error) {
      const isQueueFull = error instanceof QueueFullError;
      if (isQueueFull || !(await outage.isCauseOf(error)))
        throw createUnavailableError("rate_limit_unavailable", error, 1);
      return countLocally(key, limit, windowMs);
    }
  }

  return {
    findExcess,
    async count(key, limit, windowSeconds = DEFAULT_WINDOW_SECONDS) {
      const excess = findExcess(key, limit);
      if (excess) return excess;
      const count = await countRequest(key, limit, windowSeconds * 1_000);
      if (count.used > limit) events?.onRefusal(getLimitName(key));
      return count;
    },
    async release(key, { endsAt }, windowSeconds) {
      if (windows.find(key)?.endsAt !== endsAt) return;
      try {
        if (!outage.isActive()) return void (await addInPostgres(key, -1, windowSeconds * 1_000));
      } catch (error) {
        if (!(await outage.isCauseOf(error))) throw createUnavailableError("rate_limit_unavailable", error, 1);
      }
      windows.restoreUncountedRequests(key, -1);
    },
    close: () => processCounter.close(),
  };
}

/** Returns the name of a key's limit, for example `installation`. */
export function getLimitName(key: string): string {
  return key.split(" ", 1)[0] ?? "";
}

function toCount({ endsAt, expiresAt }: Window, used: number): Count {
  return { used, endsAt, endsInMs: Math.max(0, expiresAt - performance.now()) };
}

const HEARTBEAT_INTERVAL_MS = 2_000;

const HEARTBEATS_PER_REMOVAL = 30;

/** Assumed number of processes before the first heartbeat: one process of each of the two services. */
const ASSUMED_PROCESS_COUNT = 2;

/**
 * Statement that records a heartbeat of this process and counts the other processes with a heartbeat in the last ten
 * seconds.
 */
const HEARTBEAT_STATEMENT = {
  name: "processes that count",
  text: `
    WITH gone AS (DELETE FROM rate_limit.process WHERE seen_at < now() - interval '1 minute'),
      here AS (
        INSERT INTO rate_limit.process (id, seen_at) VALUES ($1, now())
        ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at)
    SELECT count(*)::integer AS "otherProcesses" FROM rate_limit.process
    WHERE id <> $1 AND seen_at > now() - interval '10 seconds'`,
};

/**
 * Registers this process in Postgres, and tracks the number of all processes that count requests.
 *
 * @returns `count` returns the last known number, including this process
 */
function registerProcess(pool: pg.Pool, logger: Logger) {
  const id = randomUUID();
  let count = ASSUMED_PROCESS_COUNT;
  let heartbeatCount = 0;
  const recordHeartbeat = async () => {
    try {
      const { rows } = await pool.query<{ otherProcesses: number }>({ ...HEARTBEAT_STATEMENT, values: [id] });
      count = 1 + (rows[0]?.otherProcesses ?? 0);
      if (heartbeatCount % HEARTBEATS_PER_REMOVAL === 0) await removeEndedCounters(pool);
      heartbeatCount += 1;
    } catch (error) {
      // The level is debug, because the limiter already warns when it cannot count a request in Postgres.
      logger.debug({ error }, "number of processes that count requests could not be read");
    }
  };
  void recordHeartbeat();
  const timer = setInterval(recordHeartbeat, HEARTBEAT_INTERVAL_MS).unref();
  return { count: () => count, close: () => clearInterval(timer) };
}

/** Minimum interval between two warnings that Postgres is slow. */
const SLOWNESS_LOG_INTERVAL_MS = 30_000;

interface OutageOptions {
  /** Runs a short statement on a row that only this process uses. */
  probe(): Promise<unknown>;
  probeTimeoutMs: number;
  onEnd(): void;
  logger: Logger;
}

class Outage {
  readonly #options: OutageOptions;
  readonly #circuit: Circuit;
  #currentProbe: Promise<boolean> | undefined;
  #slownessLoggedAt = Number.NEGATIVE_INFINITY;

  constructor(options: OutageOptions) {
    this.#options = options;
    this.#circuit = new Circuit({
      callTimeoutMs: options.probeTimeoutMs,
      onFailure: (error) =>
        options.logger.warn(
          { error },
          "Postgres cannot count requests: each process enforces its share of the rate limits",
        ),
      onClose: options.onEnd,
    });
  }

  /** Returns true during an outage. If a probe is due, also starts the probe, to detect the end of the outage. */
  isActive(): boolean {
    if (this.#circuit.isTestDue()) void this.#isAvailable();
    return this.#circuit.isOpen();
  }

  /**
   * Determines whether an outage caused a statement's failure. If Postgres may only be slow, a probe decides. Other
   * requests cannot delay a probe, because they never lock its row.
   */
  async isCauseOf(error: unknown): Promise<boolean> {
    if (this.#circuit.isOpen()) return true;
    if (!(error instanceof TimeoutError || isPostgresSlow(error))) this.#circuit.open(error);
    else if (await this.#isAvailable()) this.#logSlowness(error);
    return this.#circuit.isOpen();
  }

  #isAvailable(): Promise<boolean> {
    this.#currentProbe ??= this.#circuit
      .call(this.#options.probe)
      .then(
        () => true,
        () => false,
      )
      .finally(() => {
        this.#currentProbe = undefined;
      });
    return this.#currentProbe;
  }

  #logSlowness(error: unknown): void {
    if (performance.now() - this.#slownessLoggedAt < SLOWNESS_LOG_INTERVAL_MS) return;
    this.#slownessLoggedAt = performance.now();
    this.#options.logger.warn({ error }, "Postgres counts requests slowly: some requests fail with 503");
  }
}
