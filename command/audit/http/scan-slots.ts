import { ApiError } from "../../../shared/http/api-error.ts";
import type { AuditContext } from "./audited-query.ts";
import { type LineStream, streamLines } from "./stream-lines.ts";

/** Maximum numbers of concurrent queries. */
export interface SlotLimits {
  total: number;
  perAuditor: number;
}

/** Limits for queries with a streamed response: scans, replays and exports. */
const SCAN_SLOT_LIMITS: SlotLimits = { total: 4, perAuditor: 2 };

/** Limits for queries that return one JSON object. Such a query may still read a long stream. */
export const STATE_SLOT_LIMITS: SlotLimits = { total: 8, perAuditor: 4 };

/** Value of the Retry-After header if no slot is free. Seconds. */
const RETRY_AFTER_SECONDS = 5;

/** Takes a slot for an auditor. Returns a function that releases the slot. */
export type TakeSlot = (auditorId: string) => () => void;

/**
 * Limits the number of concurrent queries.
 *
 * @returns a function that takes a slot, or throws {@link ApiError} 429 `too_many_scans` if no slot is free
 */
export function createScanSlots(limits = SCAN_SLOT_LIMITS): TakeSlot {
  const takenByAuditor = new Map<string, number>();
  let total = 0;
  return (auditorId) => {
    const takenSlots = takenByAuditor.get(auditorId) ?? 0;
    if (total >= limits.total || takenSlots >= limits.perAuditor) {
      throw new ApiError(429, "too_many_scans", { headers: { "Retry-After": String(RETRY_AFTER_SECONDS) } });
    }
    total += 1;
    takenByAuditor.set(auditorId, takenSlots + 1);
    let isReleased = false;
    return () => {
      if (isReleased) return;
      isReleased = true;
      total -= 1;
      const remainingSlots = (takenByAuditor.get(auditorId) ?? 1) - 1;
      if (remainingSlots === 0) takenByAuditor.delete(auditorId);
      else takenByAuditor.set(auditorId, remainingSlots);
    };
  };
}

/**
 * Takes a slot and streams lines as the response. When the response ends or the client disconnects, the slot is
 * released and the signal aborts, which ends the scan.
 *
 * @param start starts the query and returns the lines of the result; the query must end when the given signal aborts
 * @throws {ApiError} 429 `too_many_scans`
 */
export async function streamWithSlot(
  ctx: AuditContext,
  takeSlot: TakeSlot,
  start: (signal: AbortSignal) => Promise<Omit<LineStream, "onEnd">>,
): Promise<void> {
  const release = takeSlot(ctx.state.auditor.id);
  const controller = new AbortController();
  const onEnd = () => {
    controller.abort();
    release();
  };
  try {
    streamLines(ctx, { ...(await start(controller.signal)), onEnd });
  } catch (error) {
    onEnd();
    throw error;
  }
}
