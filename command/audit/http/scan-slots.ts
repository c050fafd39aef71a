import { ApiError } from "../../../shared/http/api-error.ts";
import type { AuditContext } from "./audited-query.ts";
import { type LineStream, streamLines } from "./stream-lines.ts";

/** Maximum number of concurrent queries: of all auditors, and of one auditor. */
export interface SlotLimits {
  all: number;
  each: number;
}

/** Limits for scans and other long responses. */
const SCAN_LIMITS: SlotLimits = { all: 4, each: 2 };

/** Limits for queries with a short response, which may still read a long stream. */
export const STATE_LIMITS: SlotLimits = { all: 8, each: 4 };

/** Retry-After header of a refused query. Seconds. */
const RETRY_AFTER_S = 5;

/**
 * Limits the number of concurrent scans.
 *
 * @returns a function that takes a slot for an auditor and returns a function that releases it
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
 * Streams lines while holding a slot. When the response ends, the slot is released and the signal aborts. A client
 * that disconnects thus ends its scan.
 *
 * @throws {ApiError} 429 `too_many_scans`
 */
export async function withSlot(
  ctx: AuditContext,
  takeSlot: TakeSlot,
  begin: (signal: AbortSignal) => Promise<Omit<LineStream, "over">>,
): Promise<void> {
  const release = takeSlot(ctx.state.auditor.id);
  const end = new AbortController();
  const over = () => {
    end.abort();
    release();
  };
  try {
    streamLines(ctx, { ...(await begin(end.signal)), over });
  } catch (error) {
    over();
    throw error;
  }
}
