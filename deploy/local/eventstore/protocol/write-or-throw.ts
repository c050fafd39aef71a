import type { Deadline } from "@grpc/grpc-js";
import type { WriteRequest, WriteResult } from "../store/staged-group.ts";
import type { Store } from "../store/store.ts";
import { createLogFullError, createTimeoutError, createUnavailableError } from "./errors.ts";

/**
 * Submits the write and returns its result.
 * @throws CallError if the log did not process the write, or if the disk failed and the outcome is unknown
 * @throws LogDamagedError if a damaged event prevents the log from accepting or refusing the write
 */
export async function writeOrThrow(
  store: Store,
  request: WriteRequest,
  storedBytes: number,
  deadline: Deadline,
): Promise<WriteResult> {
  const writeOutcome = await store.submit(request, storedBytes, Number(deadline)).catch(() => {
    throw createUnavailableError("The log cannot write to its disk.");
  });
  switch (writeOutcome.outcome) {
    case "expired":
      throw createTimeoutError("The deadline passed before the write started. Nothing was written.");
    case "overloaded":
      throw createTimeoutError("The log is overloaded. Nothing was written.");
    case "closing":
      throw createUnavailableError("The log is shutting down.");
    case "disk-full":
      throw createTimeoutError("The disk of the log is full. Nothing was written.");
    case "log-full":
      throw createLogFullError();
    case "damaged":
      throw writeOutcome.reason;
    default:
      return writeOutcome;
  }
}
