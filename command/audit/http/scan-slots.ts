import type { Auditor } from "../../../shared/domain/audit/auditor.ts";
import { ApiError } from "../../../shared/http/api-error.ts";
import type { AuditContext } from "./audited-query.ts";
import { type LineStream, streamLines } from "./stream-lines.ts";

/** Numbers of slots: in total, and for each holder. A holder is an auditor, or all auditors of a clinic. */
interface SlotLimits {
  total: number;
  perHolder: number;
}

/** Limits for queries with a streamed response: scans, replays and exports. */
const SCAN_SLOT_LIMITS: SlotLimits = { total: 4, perHolder: 2 };

/** Limits for queries that return one JSON object. Such a query may still read a long stream or a whole table. */
export const STATE_SLOT_LIMITS: SlotLimits = { total: 8, perHolder: 4 };

const RETRY_AFTER_SECONDS = 5;

/** Takes a slot for an auditor. Returns a function that releases the slot. */
export type TakeSlot = (auditor: Pick<Auditor, "id" | "clinicIds">) => () => void;

/**
 * Limits the number of concurrent queries. A holder that already has a slot does not get the last free slot, so that
 * two slow holders do not block all others.
 *
 * @returns a function that takes a slot, or throws {@link ApiError} 429 `too_many_scans` if no slot is free
 */
export function createSlotLimiter(limits = SCAN_SLOT_LIMITS): TakeSlot {
  const takenCounts = new Map<string, number>();
  let takenTotal = 0;
  return ({ id, clinicIds }) => {
    const holders = new Set([id, ...(clinicIds ?? [])]);
    const takenCount = Math.max(...Array.from(holders, (holder) => takenCounts.get(holder) ?? 0));
    const freeCount = limits.total - takenTotal - (takenCount > 0 ? 1 : 0);
    if (freeCount <= 0 || takenCount >= limits.perHolder)
      throw new ApiError(429, "too_many_scans", { headers: { "Retry-After": String(RETRY_AFTER_SECONDS) } });
    const addToCounts = (change: number) => {
      takenTotal += change;
      for (const holder of holders) {
        const count = (takenCounts.get(holder) ?? 0) + change;
        if (count === 0) takenCounts.delete(holder);
        else takenCounts.set(holder, count);
      }
    };
    addToCounts(1);
    let isReleased = false;
    return () => {
      if (!isReleased) addToCounts(-1);
      isReleased = true;
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
  const releaseSlot = takeSlot(ctx.state.auditor);
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
