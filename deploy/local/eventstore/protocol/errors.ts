/** Errors in the form that EventStoreDB's clients expect: a gRPC status, a message and trailers. */
import { Metadata, status } from "@grpc/grpc-js";
import { ANY, NO_STREAM, STREAM_EXISTS } from "../model/append-rules.ts";
import { LogDamagedError } from "../model/log-errors.ts";

/**
 * Maximum size of an append in bytes. As in EventStoreDB, the size of an event is its data, its metadata and twice the
 * length of its type. Larger appends are refused.
 */
export const MAX_APPEND_BYTES = 1024 * 1024;

/** Error that ends a call. gRPC sends its code, details and metadata to the client. */
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
    for (const [key, value] of Object.entries(trailers)) this.metadata.set(key, encodeTrailer(value));
  }
}

export function createInvalidArgumentError(message: string): CallError {
  return new CallError(status.INVALID_ARGUMENT, message);
}

export function createUnavailableError(message: string): CallError {
  return new CallError(status.UNAVAILABLE, message);
}

/** Creates an error with the status ABORTED. The client treats it as a timeout and keeps its connection. */
export function createTimeoutError(message: string): CallError {
  return new CallError(status.ABORTED, message);
}

export function createStreamDeletedError(stream: string): CallError {
  const trailers = { exception: "stream-deleted", "stream-name": stream };
  return new CallError(status.FAILED_PRECONDITION, `The stream '${stream}' is deleted.`, trailers);
}

export function createWrongVersionError(stream: string, expectedRevision: number, currentRevision: number): CallError {
  return new CallError(
    status.FAILED_PRECONDITION,
    `The stream '${stream}' is at revision ${currentRevision}. The request expects ${describeExpectedRevision(expectedRevision)}.`,
    {
      exception: "wrong-expected-version",
      "stream-name": stream,
      "expected-version": String(expectedRevision),
      "actual-version": String(currentRevision),
    },
  );
}

export function createAppendTooLargeError(): CallError {
  return new CallError(status.INVALID_ARGUMENT, `An append can have at most ${MAX_APPEND_BYTES} bytes.`, {
    exception: "maximum-append-size-exceeded",
    "maximum-append-size": String(MAX_APPEND_BYTES),
  });
}

export function createMissingPropertyError(propertyName: string): CallError {
  return new CallError(status.INVALID_ARGUMENT, `The event lacks the metadata property '${propertyName}'.`, {
    exception: "missing-required-metadata-property",
    "required-metadata-properties": propertyName,
  });
}

/** Converts an error, and prints it unless the client caused it. */
export function toCallError(error: unknown, printLine: (line: string) => void): CallError {
  if (error instanceof CallError) return error;
  if (error instanceof LogDamagedError) {
    printLine(error.message);
    return new CallError(status.DATA_LOSS, error.message);
  }
  printLine(`A call failed: ${error instanceof Error ? error.message : String(error)}`);
  return new CallError(status.UNKNOWN, "The log failed to serve the call. See the log's standard error for the cause.");
}

function describeExpectedRevision(expectedRevision: number): string {
  if (expectedRevision === ANY) return "any revision";
  if (expectedRevision === NO_STREAM) return "no stream";
  return expectedRevision === STREAM_EXISTS ? "an existing stream" : `revision ${expectedRevision}`;
}

/** gRPC trailers can contain only printable ASCII. */
function encodeTrailer(value: string): string {
  return value.replace(/[^\x20-\x7e]+/gu, encodeURIComponent);
}
