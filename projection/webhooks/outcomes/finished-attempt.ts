import type { ClaimedDelivery } from "../sending/claim.ts";
import type { Verdict } from "../sending/retry-policy.ts";
import type { SendResult } from "../sending/send.ts";

/** A finished attempt: the claimed delivery, the result of the attempt and the delivery's next status. */
export interface FinishedAttempt {
  delivery: ClaimedDelivery;
  result: SendResult;
  verdict: Verdict;
}

/** Converts finished attempts to one array per SQL column, for `unnest`. */
export function toAttemptColumns(outcomes: readonly FinishedAttempt[]) {
  return {
    deliveryIds: outcomes.map(({ delivery }) => delivery.deliveryId),
    attemptNumbers: outcomes.map(({ delivery }) => delivery.attemptNumber),
    durationsMs: outcomes.map(({ result }) => result.durationMs),
    statusCodes: outcomes.map(({ result }) => result.statusCode),
    bodies: outcomes.map(({ result }) => result.responseBody),
  };
}
