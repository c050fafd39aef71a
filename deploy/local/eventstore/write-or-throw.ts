/** A write for the calls that carry one write each, where every reason not to try it ends the call. */
import { timedOut, unavailable } from "./errors.ts";
import type { Write, WriteResult } from "./staged-group.ts";
import type { Store } from "./store.ts";

/**
 * Writes and returns the decision.
 * @throws CallError where the write was not tried, or where the disk failed and its outcome is unknown.
 */
export async function writeOrThrow(
  store: Store,
  write: Write,
  bytes: number,
  deadline: Date | number,
): Promise<WriteResult> {
  const result = await store.submit(write, bytes, Number(deadline)).catch(() => {
    throw unavailable("The log cannot write to its disk.");
  });
  switch (result.outcome) {
    case "expired":
      throw timedOut("The deadline passed before the write began.");
    case "overloaded":
      throw timedOut("The log is overloaded; nothing was written.");
    case "closing":
      throw unavailable("The log is shutting down.");
    default:
      return result;
  }
}
