import { answerLines, type LineAnswer } from "./answer-lines.ts";
import type { AuditContext } from "./ask.ts";
import type { createScanSlots } from "./scan-slots.ts";

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
