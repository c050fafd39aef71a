import type { CallError } from "./errors.ts";

/** A call of Streams.Read or Streams.BatchAppend. */
interface OpenCall {
  readonly cancelled: boolean;
  readonly writableEnded: boolean;
  on(event: "close" | "cancelled", listener: () => void): unknown;
  emit(event: "error", error: Error): boolean;
}

/** The open calls of Streams.Read and Streams.BatchAppend. A shutdown ends them. */
export class OpenCalls {
  readonly #calls = new Set<OpenCall>();

  add(call: OpenCall): void {
    this.#calls.add(call);
    for (const event of ["close", "cancelled"] as const) call.on(event, () => this.#calls.delete(call));
  }

  /** Ends every call with an error. */
  endAll(error: CallError): void {
    for (const call of this.#calls) endWithError(call, error);
  }
}

/** Ends a call with an error, after gRPC has sent all earlier messages. */
export function endWithError(call: OpenCall, error: CallError): void {
  // Emits `error` instead of calling destroy(), because destroy() would drop the error's status.
  if (!call.cancelled && !call.writableEnded) call.emit("error", error);
}
