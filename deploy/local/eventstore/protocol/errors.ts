/** Errors in the form that EventStoreDB's clients understand: a status, a sentence and trailers. */
import { Metadata, status } from "@grpc/grpc-js";
import { ANY, NO_STREAM, STREAM_EXISTS } from "../model/append-rules.ts";
import { MAX_APPEND_BYTES } from "../model/limits.ts";
import { LogDamaged } from "../model/log-errors.ts";

/** An error that ends a call. gRPC takes code, details and metadata from it. */
export class CallError extends Error {
  override readonly name = "CallError";
  readonly code: status;
  readonly details: string;
  readonly metadata: Metadata;

  constructor(code: status, details: string, trailers: Readonly<Record<string, string>> = {}) {
    super(details);
    this.code = code;
    this.details = details;
    this.metadata = new Metadata();
    for (const [key, value] of Object.entries(trailers)) this.metadata.set(key, trailerText(value));
  }
}

export function invalidArgument(sentence: string): CallError {
  return new CallError(status.INVALID_ARGUMENT, sentence);
}

export function unimplemented(sentence: string): CallError {
  return new CallError(status.UNIMPLEMENTED, sentence);
}

export function unavailable(sentence: string): CallError {
  return new CallError(status.UNAVAILABLE, sentence);
}

/** The client reads ABORTED as a timeout, after which it may try again on the same connection. */
export function timedOut(sentence: string): CallError {
  return new CallError(status.ABORTED, sentence);
}

export function streamDeleted(stream: string): CallError {
  const trailers = { exception: "stream-deleted", "stream-name": stream };
  return new CallError(status.FAILED_PRECONDITION, `The stream '${stream}' is deleted.`, trailers);
}

export function wrongExpectedVersion(stream: string, expected: number, current: number): CallError {
  return new CallError(
    status.FAILED_PRECONDITION,
    `The stream '${stream}' is at revision ${current}, not at the expected ${expectedText(expected)}.`,
    {
      exception: "wrong-expected-version",
      "stream-name": stream,
      "expected-version": String(expected),
      "actual-version": String(current),
    },
  );
}

export function appendTooLarge(): CallError {
  return new CallError(status.INVALID_ARGUMENT, `An append may have ${MAX_APPEND_BYTES} bytes.`, {
    exception: "maximum-append-size-exceeded",
    "maximum-append-size": String(MAX_APPEND_BYTES),
  });
}

/** The log has reached a bound of its size; see LOG_BOUNDS. */
export function logFull(): CallError {
  const sentence = "The log has reached its largest size; nothing was written. Its README lists the bounds.";
  return new CallError(status.RESOURCE_EXHAUSTED, sentence);
}

export function missingProperty(property: string): CallError {
  return new CallError(status.INVALID_ARGUMENT, `The event lacks the metadata property '${property}'.`, {
    exception: "missing-required-metadata-property",
    "required-metadata-properties": property,
  });
}

/** Turns any error into one that ends a call. Logs it, unless the call itself was at fault. */
export function toCallError(error: unknown, log: (line: string) => void): CallError {
  if (error instanceof CallError) return error;
  if (error instanceof LogDamaged) {
    log(error.message);
    return new CallError(status.DATA_LOSS, error.message);
  }
  log(`A call failed: ${error instanceof Error ? error.message : String(error)}`);
  return new CallError(status.UNKNOWN, "The log could not answer; its output says why.");
}

function expectedText(expected: number): string {
  if (expected === ANY) return "any";
  if (expected === NO_STREAM) return "no stream";
  return expected === STREAM_EXISTS ? "existing stream" : String(expected);
}

/** Trailers carry printable ASCII only; anything else is percent-encoded. */
function trailerText(value: string): string {
  return value.replace(/[^\x20-\x7e]+/gu, encodeURIComponent);
}
