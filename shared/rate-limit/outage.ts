import type { Logger } from "../runtime/logger.ts";
import { TimeoutError, withTimeout } from "../runtime/timeout.ts";

/** During an outage, one call in this time finds out whether it is over. Milliseconds. */
const TRY_EVERY = 2_000;

/** Warnings are this far apart at least. Milliseconds. */
const WARN_EVERY = 30_000;

/**
 * SQLSTATE of a server that works and was too slow for a statement: timed out, lock not available, deadlock,
 * serialization failure.
 */
const SLOW = new Set(["57014", "55P03", "40P01", "40001"]);

/** pg's words for an answer or a connection that was late, which carry no code. */
const LATE = /Query read timeout|timeout exceeded when trying to connect/;

/** Knows whether Postgres is out of order or merely slow. */
export interface Outage {
  /** Whether Postgres is out of order, as far as is known. Finds out now and then whether the outage is over. */
  isOn(): boolean;
  /**
   * Judges a failed statement. If Postgres may be merely slow, a call that depends on no other's work decides.
   *
   * @returns whether Postgres is out of order
   */
  follows(error: unknown): Promise<boolean>;
}

/**
 * @param using.tryOut a short statement on a row that only this process uses
 * @param using.answerWithin time that it may take. Milliseconds
 * @param using.onEnd called when an outage is over
 */
export function watchOutage(using: {
  tryOut: () => Promise<unknown>;
  answerWithin: number;
  onEnd: () => void;
  logger: Logger;
}): Outage {
  let nextTry: number | undefined;
  let warnedAt = Number.NEGATIVE_INFINITY;
  let trying: Promise<boolean> | undefined;

  const warn = (error: unknown, message: string) => {
    if (performance.now() - warnedAt < WARN_EVERY) return;
    warnedAt = performance.now();
    using.logger.warn({ error }, message);
  };
  const begin = (error: unknown) => {
    nextTry = performance.now() + TRY_EVERY;
    warn(error, "Postgres cannot count requests: each process holds callers to its share of the limits");
  };
  const attempt = async () => {
    try {
      await withTimeout(using.answerWithin, using.tryOut());
      const wasOn = nextTry !== undefined;
      nextTry = undefined;
      if (wasOn) using.onEnd();
      return true;
    } catch (error) {
      begin(error);
      return false;
    } finally {
      trying = undefined;
    }
  };
  const works = () => {
    trying ??= attempt();
    return trying;
  };

  return {
    isOn() {
      if (nextTry !== undefined && performance.now() >= nextTry) {
        nextTry = performance.now() + TRY_EVERY;
        void works();
      }
      return nextTry !== undefined;
    },
    async follows(error) {
      if (nextTry !== undefined) return true;
      if (!isSlow(error)) begin(error);
      else if (await works()) warn(error, "Postgres is slow to count requests: some are answered 503");
      return nextTry !== undefined;
    },
  };
}

function isSlow(error: unknown): boolean {
  if (!(error instanceof Error) || error instanceof TimeoutError) return error instanceof TimeoutError;
  const { code, message } = error as Error & { code?: unknown };
  return SLOW.has(String(code)) || (code === undefined && LATE.test(message));
}
