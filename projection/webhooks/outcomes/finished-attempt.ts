import type { ClaimedDelivery } from "../sending/claim.ts";
import type { Verdict } from "../sending/retry-policy.ts";
import type { SendResult } from "../sending/send.ts";

/** A finished attempt with its delivery and result, and the decision about the next status of the delivery. */
export interface FinishedAttempt {
  claimed: ClaimedDelivery;
  result: SendResult;
  verdict: Verdict;
}

/** Returns the values of finished attempts as one array for each column, for `unnest` in SQL. */
export function toAttemptColumns(outcomes: readonly FinishedAttempt[]) {
  return {
    deliveryIds: outcomes.map(({ claimed }) => claimed.deliveryId),
    numbers: outcomes.map(({ claimed }) => claimed.number),
    durations: outcomes.map(({ result }) => result.durationMs),
    statusCodes: outcomes.map(({ result }) => result.statusCode),
    bodies: outcomes.map(({ result }) => result.responseBody),
  };
}
