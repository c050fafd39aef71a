/** Waits of partners' requests, for the log position of an earlier write or for an event. Waits need no connection to Postgres. */
import type Koa from "koa";
import { ApiError, createUnavailableError } from "../../shared/http/api-error.ts";
import { listHeaderValues } from "../../shared/http/request.ts";
import { getPositionHeader } from "../../shared/partner-api/operations.ts";
import type { PositionWatch } from "../../shared/postgres/read-model-position.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";

const POSITION_TIMEOUT_MS = 2_000;

/** Interval between two reads while no notifications arrive, for example from a standby. */
const POLL_INTERVAL_MS = 250;

/** Minimum interval between two reads. All waits for events share one series of reads. */
const MIN_INTERVAL_MS = 20;

/** Maximum number of requests of an application that wait in one process. */
const MAX_WAITS_PER_APPLICATION = 200;

/** Maximum number of requests that wait in one process. A waiting request needs memory and a socket. */
const MAX_WAITS = 1_000;

export interface Waits {
  /**
   * Waits for an event of a clinic, or of an application at any clinic. If too many requests wait, a wait of the
   * application with the most waits ends early.
   *
   * @param ownerId id of the clinic or the application
   * @param position position of the read models at which the caller has found no event
   * @param signal ends the wait
   * @returns true if the request should be authorized and read again; false if the wait ended early
   * @throws {ApiError} 429 `too_many_waiting_requests`
   */
  forEvent(
    applicationId: string,
    ownerId: string,
    position: bigint,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<boolean>;
  /**
   * Waits until the read models reach a position. Positions are not authenticated: a request with an invented position
   * waits and then fails. Must run after the rate limiter has counted the request.
   *
   * @throws {ApiError} 503 `read_model_behind` if the read models do not reach the position in time, or if too many
   *   requests wait
   */
  forPosition(applicationId: string, position: bigint): Promise<void>;
  /** Returns true if the read models have reached the position. */
  isReached(position: bigint): Promise<boolean>;
  /** Reports the current position of the read models; undefined if changes of the position are not reported. */
  notify(position: bigint | undefined): void;
  /** Returns the number of waits for events. */
  getWaitCount(): number;
  /** Ends all waits for events. Later waits end at once. */
  stop(): void;
}

/** Reads what happened after a position: the position of the read models, and the last event of each owner. */
type ReadNewEvents = (position: bigint) => Promise<NewEvents>;

export interface NewEvents {
  position: string;
  /** Position of the last event of each owner, by the id of the clinic or the application. */
  lastPositions: Record<string, string>;
}

/** Selects {@link NewEvents} after position $1. */
export const newEventsStatement = {
  name: "events after a position",
  text: `WITH new_event AS MATERIALIZED (
      SELECT clinic_id, max(position) AS position FROM ${READ_MODEL_SCHEMA}.public_event
       WHERE type IS NOT NULL AND position > $1::bigint AND clinic_id IS NOT NULL GROUP BY clinic_id),
    owner AS (
      SELECT clinic_id AS id, position FROM new_event
      UNION ALL
      SELECT i.application_id, max(n.position) FROM new_event n JOIN ${READ_MODEL_SCHEMA}.installation i USING (clinic_id)
       GROUP BY i.application_id)
    SELECT c.position::text AS position,
      coalesce((SELECT json_object_agg(id, position::text) FROM owner), '{}') AS "lastPositions"
    FROM ${READ_MODEL_SCHEMA}.checkpoint c`,
};

interface Waiter {
  ownerId: string;
  position: bigint;
  /** @param isAborted true if the request should not read again */
  end(isAborted: boolean): void;
}

/** @param positionWatch watch of the read models that the reads use */
export function createWaits(positionWatch: PositionWatch, readNewEvents: ReadNewEvents): Waits {
  /** Functions that end the waits of each application, the oldest wait first. */
  const waits = new Map<string, Set<() => void>>();
  const waiters = new Set<Waiter>();
  let notifiedPosition: bigint | undefined;
  let isStopped = false;
  let timer: NodeJS.Timeout | undefined;
  let isReading = false;

  function requireRoom(applicationId: string): void {
    const counts = Array.from(waits, ([id, { size }]) => ({ id, size }));
    const ownCount = waits.get(applicationId)?.size ?? 0;
    if (ownCount < MAX_WAITS_PER_APPLICATION && counts.reduce((sum, { size }) => sum + size, 0) < MAX_WAITS) return;
    const largest = counts.reduce((a, b) => (b.size > a.size ? b : a));
    const [endOldest] = waits.get(largest.id) ?? [];
    if (ownCount + 1 >= largest.size || !endOldest)
      throw new ApiError(429, "too_many_waiting_requests", { headers: { "Retry-After": "5" } });
    endOldest();
    // A burst of requests must not end the same wait several times.
    waits.get(largest.id)?.delete(endOldest);
  }

  /**
   * Waits, and counts the wait towards the application's limit.
   *
   * @param start starts the wait, which ends with a call of `resolve`; returns a function that ends the wait early
   */
  async function hold(applicationId: string, start: (resolve: (result: boolean) => void) => () => void) {
    requireRoom(applicationId);
    let end: () => void = () => undefined;
    const result = new Promise<boolean>((resolve) => {
      end = start(resolve);
    });
    const ownWaits = waits.get(applicationId) ?? new Set();
    waits.set(applicationId, ownWaits.add(end));
    try {
      return await result;
    } finally {
      ownWaits.delete(end);
      if (ownWaits.size === 0) waits.delete(applicationId);
    }
  }

  const isBehind = () =>
    [...waiters].some(({ position }) => notifiedPosition === undefined || position < notifiedPosition);

  function schedule(): void {
    if (timer || isReading || !isBehind()) return;
    timer = setTimeout(read, notifiedPosition === undefined ? POLL_INTERVAL_MS : MIN_INTERVAL_MS);
  }

  async function read(): Promise<void> {
    timer = undefined;
    if (waiters.size === 0) return;
    isReading = true;
    try {
      const positions = Array.from(waiters, ({ position }) => position);
      const { position, lastPositions } = await readNewEvents(positions.reduce((a, b) => (a < b ? a : b)));
      for (const waiter of waiters) {
        if (BigInt(lastPositions[waiter.ownerId] ?? -1) > waiter.position) waiter.end(false);
        else if (BigInt(position) > waiter.position) waiter.position = BigInt(position);
      }
    } catch {
      // The request that reads after its wait reports the error. Until then, the next read may succeed.
      notifiedPosition = undefined;
    }
    isReading = false;
    schedule();
  }

  return {
    async forEvent(applicationId, ownerId, position, timeoutMs, signal) {
      if (isStopped || signal.aborted) return false;
      return hold(applicationId, (resolve) => {
        const end = () => waiter.end(true);
        const timeout = setTimeout(() => waiter.end(false), timeoutMs);
        const waiter: Waiter = {
          ownerId,
          position,
          end(isAborted) {
            clearTimeout(timeout);
            signal.removeEventListener("abort", end);
            waiters.delete(waiter);
            resolve(!isAborted);
          },
        };
        signal.addEventListener("abort", end);
        waiters.add(waiter);
        schedule();
        return end;
      });
    },
    async forPosition(applicationId, position) {
      let failure: unknown;
      const isInTime = await hold(applicationId, (resolve) => {
        positionWatch.wait(position, POSITION_TIMEOUT_MS).then(resolve, (error) => {
          failure = error;
          resolve(false);
        });
        return () => resolve(false);
      }).catch((error: ApiError) => {
        throw createUnavailableError("read_model_behind", error, 1);
      });
      if (failure) throw failure;
      if (!isInTime) throw createUnavailableError("read_model_behind", undefined, 1);
    },
    isReached: (position) => positionWatch.wait(position, 0),
    notify(position) {
      notifiedPosition = position;
      schedule();
    },
    getWaitCount: () => waiters.size,
    stop() {
      isStopped = true;
      clearTimeout(timer);
      for (const waiter of waiters) waiter.end(true);
    },
  };
}

/**
 * Reads the log position that a request names; undefined if it names none.
 *
 * @param brand brand in the header's name, as in `X-<brand>-Log-Position`
 * @throws {ApiError} 400 `invalid_log_position`
 */
export function readPosition(ctx: Koa.ParameterizedContext, brand: string): bigint | undefined {
  const [text, ...others] = listHeaderValues(ctx.req, getPositionHeader(brand).toLowerCase());
  if (text === undefined) return undefined;
  if (others.length > 0 || !/^\d{1,20}$/.test(text)) throw new ApiError(400, "invalid_log_position");
  return BigInt(text);
}
