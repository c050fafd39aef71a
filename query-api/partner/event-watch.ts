import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";

/** Interval between two reads while no notifications arrive, for example from a standby. */
const POLL_INTERVAL_MS = 250;

/** Minimum interval between two reads. All waits of the process share one series of reads. */
const MIN_INTERVAL_MS = 20;

export interface EventWatch {
  /**
   * Waits for an event of a clinic or an application, without a connection to Postgres.
   *
   * @param ownerId id of the clinic, or of the application whose installations the event concerns
   * @param position position of the read models at which the caller has found no event
   * @param signal ends the wait
   * @returns `aborted` if the signal has ended the wait, or the process stops
   */
  wait(ownerId: string, position: bigint, timeoutMs: number, signal: AbortSignal): Promise<WaitResult>;
  /** Reports the current position of the read models; undefined if changes of the position are not reported. */
  notify(position: bigint | undefined): void;
  getWaitCount(): number;
  /** Ends all waits. Later waits end at once. */
  stop(): void;
}

export type WaitResult = "event" | "timeout" | "aborted";

/** Reads what happened after a position: the position of the read models, and the last event of each owner. */
export type ReadNewEvents = (position: bigint) => Promise<NewEvents>;

export interface NewEvents {
  position: string;
  /** Positions by the id of the clinic or the application. */
  lastPositions: Record<string, string>;
}

/** `$1`: position. */
export const newEventsStatement = {
  name: "events after a position",
  text: `SELECT c.position::text AS position, coalesce((
      SELECT json_object_agg(e.owner_id, e.position) FROM (
        SELECT o.owner_id, max(p.position)::text AS position FROM ${READ_MODEL_SCHEMA}.public_event p
          LEFT JOIN ${READ_MODEL_SCHEMA}.installation i USING (installation_id)
          CROSS JOIN LATERAL (VALUES (p.clinic_id), (i.application_id)) o (owner_id)
         WHERE p.type IS NOT NULL AND p.position > $1::bigint AND o.owner_id IS NOT NULL
         GROUP BY o.owner_id) e), '{}') AS "lastPositions"
    FROM ${READ_MODEL_SCHEMA}.checkpoint c`,
};

interface Waiter {
  ownerId: string;
  position: bigint;
  end(result: WaitResult): void;
}

export function createEventWatch(readNewEvents: ReadNewEvents): EventWatch {
  const waiters = new Set<Waiter>();
  let notifiedPosition: bigint | undefined;
  let isStopped = false;
  let timer: NodeJS.Timeout | undefined;
  let isReading = false;

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
      const newEvents = await readNewEvents(positions.reduce((a, b) => (a < b ? a : b)));
      endWaits(newEvents);
    } catch {
      // The request that reads after its wait reports the error. Until then, the next read may succeed.
      notifiedPosition = undefined;
    }
    isReading = false;
    schedule();
  }

  function endWaits({ position, lastPositions }: NewEvents): void {
    for (const waiter of waiters) {
      if (BigInt(lastPositions[waiter.ownerId] ?? -1) > waiter.position) waiter.end("event");
      else if (BigInt(position) > waiter.position) waiter.position = BigInt(position);
    }
  }

  return {
    wait(ownerId, position, timeoutMs, signal) {
      return new Promise((resolve) => {
        if (isStopped || signal.aborted) return resolve("aborted");
        const abort = () => waiter.end("aborted");
        const timeout = setTimeout(() => waiter.end("timeout"), timeoutMs);
        const waiter: Waiter = {
          ownerId,
          position,
          end(result) {
            clearTimeout(timeout);
            signal.removeEventListener("abort", abort);
            waiters.delete(waiter);
            resolve(result);
          },
        };
        signal.addEventListener("abort", abort);
        waiters.add(waiter);
        schedule();
      });
    },
    notify(position) {
      notifiedPosition = position;
      schedule();
    },
    getWaitCount: () => waiters.size,
    stop() {
      isStopped = true;
      clearTimeout(timer);
      for (const waiter of waiters) waiter.end("aborted");
    },
  };
}
