import type { ClaimedDelivery } from "../sending/claim.ts";
import type { Verdict } from "../sending/retry-policy.ts";
import type { SendResult } from "../sending/send.ts";

/** A finished attempt: its delivery, its result, and the decision about the delivery. */
export interface FinishedAttempt {
  claimed: ClaimedDelivery;
  result: SendResult;
  verdict: Verdict;
}
