/** A write for the calls that carry one write each, where every reason not to try it ends the call. */

import type { Write, WriteResult } from "../store/staged-group.ts";
import type { Store } from "../store/store.ts";
import { logFull, timedOut, unavailable } from "./errors.ts";

/**
 * Writes and returns the decision.
 * @throws CallError if nothing was written, or if the disk failed and the outcome is unknown
 * @throws LogDamaged if a stored event that decides on the write is damaged
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
    case "disk-full":
      throw timedOut("The disk of the log is full; nothing was written.");
    case "log-full":
      throw logFull();
    case "damaged":
      throw result.reason;
    default:
      return result;
  }
}
