import type { ClaimedDelivery } from "../sending/claim.ts";
import type { Verdict } from "../sending/retry-policy.ts";
import type { SendResult } from "../sending/send.ts";

/** An attempt that has ended, and what follows. */
export interface FinishedAttempt {
  claimed: ClaimedDelivery;
  result: SendResult;
  verdict: Verdict;
}
