/** Part of an attempt's result that determines the next status of the delivery. */
export interface AttemptResult {
  /** Null if no response began. */
  statusCode: number | null;
  retryAfter: string | null;
}

export type Verdict =
  | { status: "delivered" }
  | { status: "pending"; nextAttemptAt: number }
  /** `isGone` is true if the receiver returned 410. The endpoint is then disabled. */
  | { status: "failed"; isGone: boolean };

interface RetryContext {
  /** Number of attempts since the delivery was created or last replayed, including the finished attempt. */
  attemptCount: number;
  scheduleSeconds: readonly number[];
  /** Milliseconds since 1970. */
  now: number;
  /** Random number from 0 inclusive to 1 exclusive. */
  random: number;
}

/** Maximum random change of each wait, as a share. Prevents simultaneous retries of deliveries that failed together. */
const MAX_JITTER_SHARE = 0.2;

/** Maximum wait that a receiver can request with Retry-After. */
const MAX_RETRY_AFTER_MS = 24 * 60 * 60 * 1_000;

const GONE_STATUS = 410;

/** Decides the next status of a delivery after an attempt. Only a 2xx status is a success. */
export function judgeAttempt(result: AttemptResult, context: RetryContext): Verdict {
  const { statusCode } = result;
  if (statusCode !== null && statusCode >= 200 && statusCode < 300) return { status: "delivered" };
  if (statusCode === GONE_STATUS) return { status: "failed", isGone: true };
  const delaySeconds = context.scheduleSeconds[context.attemptCount - 1];
  if (delaySeconds === undefined) return { status: "failed", isGone: false };
  const scheduledMs = delaySeconds * 1_000 * (1 - MAX_JITTER_SHARE + 2 * MAX_JITTER_SHARE * context.random);
  const requestedMs = parseRetryAfter(result.retryAfter, context.now);
  return { status: "pending", nextAttemptAt: Math.ceil(context.now + Math.max(scheduledMs, requestedMs)) };
}

const MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)";
const TIME = "\\d\\d:\\d\\d:\\d\\d";

/** The three forms of HTTP dates (RFC 9110, section 5.6.7). All are in GMT, but the third does not name the zone. */
const HTTP_DATE = new RegExp(
  `^(?:[A-Z][a-z]{2}, \\d\\d ${MONTH} \\d{4} ${TIME} GMT|[A-Z][a-z]+day, \\d\\d-${MONTH}-\\d\\d ${TIME} GMT|([A-Z][a-z]{2} ${MONTH} [ \\d]\\d ${TIME} \\d{4}))$`,
);

function parseHttpDate(text: string): number {
  const [date = "", asctimeDate] = HTTP_DATE.exec(text) ?? [];
  return Date.parse(asctimeDate === undefined ? date : `${asctimeDate} GMT`);
}

/**
 * Parses a Retry-After header, which contains seconds or an HTTP date. Returns the wait in milliseconds, at most 24
 * hours, or 0 if the header is invalid or names a past time.
 */
function parseRetryAfter(retryAfter: string | null, now: number): number {
  if (retryAfter === null) return 0;
  const text = retryAfter.trim();
  const waitMs = /^\d+$/.test(text) ? Number(text) * 1_000 : parseHttpDate(text) - now;
  return Number.isNaN(waitMs) ? 0 : Math.min(Math.max(waitMs, 0), MAX_RETRY_AFTER_MS);
}
