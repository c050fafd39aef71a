import { ApiError } from "../../../shared/http/api-error.ts";
import { answerLines, type LineAnswer } from "./answer-lines.ts";
import type { AuditContext } from "./audited-query.ts";

/** What runs at once: of all auditors, and of one. */
export interface SlotLimits {
  all: number;
  each: number;
}

/** Scans, and answers that are as long as a stream. */
const SCAN_LIMITS: SlotLimits = { all: 4, each: 2 };

/** Questions with a short answer, which may read a long stream for it all the same. */
export const STATE_LIMITS: SlotLimits = { all: 8, each: 4 };

/** Seconds. */
const RETRY_AFTER_S = 5;

/**
 * Bounds the scans that run at once.
 *
 * @returns takes a slot for an auditor and gives what lets it go again, once
 */
export function createScanSlots(limits = SCAN_LIMITS): (auditorId: string) => () => void {
  const taken = new Map<string, number>();
  let all = 0;
  return (auditorId) => {
    const own = taken.get(auditorId) ?? 0;
    if (all >= limits.all || own >= limits.each) {
      throw new ApiError(429, "too_many_scans", { headers: { "Retry-After": String(RETRY_AFTER_S) } });
    }
    all += 1;
    taken.set(auditorId, own + 1);
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      all -= 1;
      const left = (taken.get(auditorId) ?? 1) - 1;
      if (left === 0) taken.delete(auditorId);
      else taken.set(auditorId, left);
    };
  };
}

export type TakeSlot = ReturnType<typeof createScanSlots>;

/**
 * Answers with lines that need one of the slots for scans, which is free again when the answer is over. The signal
 * aborts then too: a client that goes away ends the scan.
 *
 * @throws {ApiError} 429 `too_many_scans`
 */
export async function withSlot(
  ctx: AuditContext,
  takeSlot: TakeSlot,
  begin: (signal: AbortSignal) => Promise<Omit<LineAnswer, "over">>,
): Promise<void> {
  const release = takeSlot(ctx.state.auditor.id);
  const end = new AbortController();
  const over = () => {
    end.abort();
    release();
  };
  try {
    answerLines(ctx, { ...(await begin(end.signal)), over });
  } catch (error) {
    over();
    throw error;
  }
}
