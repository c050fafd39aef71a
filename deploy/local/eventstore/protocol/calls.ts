/** Open streaming calls, so that a shutdown can end them. */
import type { CallError } from "./errors.ts";

/** The members of a streaming call that are used here. */
interface OpenCall {
  readonly cancelled: boolean;
  readonly writableEnded: boolean;
  on(event: "close" | "cancelled", listener: () => void): unknown;
  emit(event: "error", error: Error): boolean;
}

export class OpenCalls {
  readonly #calls = new Set<OpenCall>();

  add(call: OpenCall): void {
    this.#calls.add(call);
    for (const event of ["close", "cancelled"] as const) call.on(event, () => this.#calls.delete(call));
  }

  /** Ends every call with an error. */
  endAll(error: CallError): void {
    for (const call of this.#calls) endWith(call, error);
  }
}

/** Ends a call with an error. gRPC sends all messages written before. */
export function endWith(call: OpenCall, error: CallError): void {
  // With the event, because destroy() would drop the status.
  if (!call.cancelled && !call.writableEnded) call.emit("error", error);
}
