import type { AttemptError } from "../../../shared/webhooks/attempt-error.ts";

/** Result of an attempt, as far as it matters for the next one. */
export interface AttemptResult {
  /** Null without an answer. */
  statusCode: number | null;
  /** Null if a complete answer came. */
  error: AttemptError | null;
  /** The Retry-After header of the answer, unchanged. */
  retryAfter: string | null;
}

export type Verdict =
  | { status: "delivered" }
  | { status: "pending"; nextAttemptAt: number }
  /** `gone`: the endpoint wants no more deliveries. */
  | { status: "failed"; gone: boolean };

export interface RetryContext {
  /** Attempts of this round, including this one. */
  attempts: number;
  /** Seconds before each retry. */
  schedule: readonly number[];
  /** Milliseconds since 1970. */
  now: number;
  /** From 0 up to, not including, 1. */
  random: number;
}

/** Random part of each wait, so that deliveries that failed together are not retried together. */
const JITTER = 0.2;

/** Longest wait that a receiver can request. Milliseconds. */
const MAX_RETRY_AFTER_MS = 24 * 60 * 60 * 1_000;

const GONE = 410;

/** Decides about a delivery after an attempt. A complete 2xx answer is a success, everything else is a failure. */
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

/** Returns the wait in a Retry-After header, which holds seconds or an HTTP date. Returns 0 if it is unreadable or in the past. */
function requestedWait(retryAfter: string | null, now: number): number {
  if (retryAfter === null) return 0;
  const text = retryAfter.trim();
  const wait = /^\d+$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - now;
  return Number.isNaN(wait) ? 0 : Math.min(Math.max(wait, 0), MAX_RETRY_AFTER_MS);
}
