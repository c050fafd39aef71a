import { ApiError } from "../../../shared/http/api-error.ts";
import type { AuditContext } from "./audited-query.ts";
import { type LineStream, streamLines } from "./stream-lines.ts";

interface SlotLimits {
  total: number;
  perAuditor: number;
}

/** Limits for queries with a streamed response: scans, replays and exports. */
const SCAN_SLOT_LIMITS: SlotLimits = { total: 4, perAuditor: 2 };

/** Limits for queries that return one JSON object. Such a query may still read a long stream or a whole table. */
export const STATE_SLOT_LIMITS: SlotLimits = { total: 8, perAuditor: 4 };

const RETRY_AFTER_SECONDS = 5;

/** Takes a slot for an auditor. Returns a function that releases the slot. */
export type TakeSlot = (auditorId: string) => () => void;

/**
 * Limits the number of concurrent queries.
 *
 * @returns a function that takes a slot, or throws {@link ApiError} 429 `too_many_scans` if no slot is free
 */
export function createSlotLimiter(limits = SCAN_SLOT_LIMITS): TakeSlot {
  const takenCountByAuditor = new Map<string, number>();
  let takenTotal = 0;
  return (auditorId) => {
    const takenCount = takenCountByAuditor.get(auditorId) ?? 0;
    if (takenTotal >= limits.total || takenCount >= limits.perAuditor) {
      throw new ApiError(429, "too_many_scans", { headers: { "Retry-After": String(RETRY_AFTER_SECONDS) } });
    }
    takenTotal += 1;
    takenCountByAuditor.set(auditorId, takenCount + 1);
    let isReleased = false;
    return () => {
      if (isReleased) return;
      isReleased = true;
      takenTotal -= 1;
      const remainingCount = (takenCountByAuditor.get(auditorId) ?? 1) - 1;
      if (remainingCount === 0) takenCountByAuditor.delete(auditorId);
      else takenCountByAuditor.set(auditorId, remainingCount);
    };
  };
}

/**
 * Takes a slot and streams lines as the response. When the response ends or the client disconnects, the slot is
 * released and the signal aborts, which ends the scan.
 *
 * @param startQuery starts the query and returns the lines of the result; the query must end when the signal aborts
 * @throws {ApiError} 429 `too_many_scans`
 */
export async function streamWithSlot(
  ctx: AuditContext,
  takeSlot: TakeSlot,
  startQuery: (signal: AbortSignal) => Promise<Omit<LineStream, "onEnd">>,
): Promise<void> {
  const releaseSlot = takeSlot(ctx.state.auditor.id);
  const controller = new AbortController();
  const onEnd = () => {
    controller.abort();
    releaseSlot();
  };
  try {
    streamLines(ctx, { ...(await startQuery(controller.signal)), onEnd });
  } catch (error) {
    onEnd();
    throw error;
  }
}
