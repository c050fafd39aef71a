import type { AttemptError } from "../../../shared/webhooks/attempt-error.ts";

/** How an attempt went, as far as it decides about the next. */
export interface AttemptResult {
  /** Null where no answer came. */
  statusCode: number | null;
  /** Null if a complete answer came. */
  error: AttemptError | null;
  /** The answer's Retry-After, as it came. */
  retryAfter: string | null;
}

export type Verdict =
  | { status: "delivered" }
  | { status: "pending"; nextAttemptAt: number }
  /** `gone`: the endpoint asks for no more deliveries at all. */
  | { status: "failed"; gone: boolean };

export interface RetryContext {
  /** Attempts of this round, this one included. */
  attempts: number;
  /** Seconds before each retry. */
  schedule: readonly number[];
  /** Milliseconds since 1970. */
  now: number;
  /** From 0 up to, not including, 1. */
  random: number;
}

/** Each wait is up to this much shorter or longer, so that what failed together is not retried together. */
const JITTER = 0.2;

/** A receiver may ask for this much patience at the most. Milliseconds. */
const MAX_RETRY_AFTER_MS = 24 * 60 * 60 * 1_000;

const GONE = 410;

/** What follows from an attempt: any 2xx with a whole answer is success, everything else is failure. */
export function judge(outcome: AttemptResult, context: RetryContext): Verdict {
  const { statusCode, error } = outcome;
  if (error === null && statusCode !== null && statusCode >= 200 && statusCode < 300) {
    return { status: "delivered" };
  }
  if (statusCode === GONE) return { status: "failed", gone: true };
  const seconds = context.schedule[context.attempts - 1];
  if (seconds === undefined) return { status: "failed", gone: false };
  const scheduled = seconds * 1_000 * (1 - JITTER + 2 * JITTER * context.random);
  const requested =
    statusCode === 429 || statusCode === 503 ? requestedWait(outcome.retryAfter, context.now) : 0;
  return { status: "pending", nextAttemptAt: Math.ceil(context.now + Math.max(scheduled, requested)) };
}

/** The wait that a Retry-After asks for, in seconds or as an HTTP date; 0 where it asks for none or is unreadable. */
function requestedWait(retryAfter: string | null, now: number): number {
  if (retryAfter === null) return 0;
  const text = retryAfter.trim();
  const wait = /^\d+$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - now;
  return Number.isNaN(wait) ? 0 : Math.min(Math.max(wait, 0), MAX_RETRY_AFTER_MS);
}
