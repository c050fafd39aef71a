/** Errors in the form that EventStoreDB's clients expect: a status, a message and trailers. */
import { Metadata, status } from "@grpc/grpc-js";
import { ANY, NO_STREAM, STREAM_EXISTS } from "../model/append-rules.ts";
import { MAX_APPEND_BYTES } from "../model/limits.ts";
import { LogDamagedError } from "../model/log-errors.ts";

/** An error that ends a call. gRPC sends its code, details and metadata. */
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

/** The client treats ABORTED as a timeout and can retry on the same connection. */
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
  return new CallError(status.INVALID_ARGUMENT, `An append can have at most ${MAX_APPEND_BYTES} bytes.`, {
    exception: "maximum-append-size-exceeded",
    "maximum-append-size": String(MAX_APPEND_BYTES),
  });
}

/** The log has reached a limit; see LOG_BOUNDS. */
export function logFull(): CallError {
  const sentence =
    "The log has reached its largest size. Nothing was written. deploy/local/eventstore/README.md lists the limits.";
  return new CallError(status.RESOURCE_EXHAUSTED, sentence);
}

export function missingProperty(property: string): CallError {
  return new CallError(status.INVALID_ARGUMENT, `The event lacks the metadata property '${property}'.`, {
    exception: "missing-required-metadata-property",
    "required-metadata-properties": property,
  });
}

/** Converts any error to one that ends a call. Logs it, unless the caller caused it. */
export function toCallError(error: unknown, log: (line: string) => void): CallError {
  if (error instanceof CallError) return error;
  if (error instanceof LogDamagedError) {
    log(error.message);
    return new CallError(status.DATA_LOSS, error.message);
  }
  log(`A call failed: ${error instanceof Error ? error.message : String(error)}`);
  return new CallError(
    status.UNKNOWN,
    "The log could not answer. Its output on standard error shows the reason.",
  );
}

function expectedText(expected: number): string {
  if (expected === ANY) return "any";
  if (expected === NO_STREAM) return "no stream";
  return expected === STREAM_EXISTS ? "existing stream" : String(expected);
}

/** Percent-encodes characters that trailers cannot contain: all except printable ASCII. */
function trailerText(value: string): string {
  return value.replace(/[^\x20-\x7e]+/gu, encodeURIComponent);
}
