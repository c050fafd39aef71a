import type { ReadReq } from "@eventstore/db-client/generated/streams_pb.js";
import { status } from "@grpc/grpc-js";
import { CallError, createInvalidArgumentError } from "./errors.ts";
import { type EventFilter, parseFilter } from "./filter.ts";
import { parseStreamName, parseUint64 } from "./request-parts.ts";

/** Start of a read: the start or end of the log or stream, a revision of the stream, or a log position. */
export type ReadStart = number | "start" | "end";

export interface ReadRequest {
  /** Name of the stream; undefined to read all streams. */
  readonly stream: string | undefined;
  readonly start: ReadStart;
  readonly isBackwards: boolean;
  /** Maximum number of events, or "live" for a subscription. */
  readonly maxCount: number | "live";
  readonly filter: EventFilter | undefined;
  readonly requiresStructuredIds: boolean;
}

const BACKWARDS = 1;

/**
 * Parses and validates a request of Streams.Read.
 * @throws CallError if the request is invalid or uses an unsupported feature
 */
export function parseReadRequest(request: ReadReq): ReadRequest {
  const options = request.getOptions();
  if (options === undefined) throw createInvalidArgumentError("A read request must contain options.");
  if (options.getResolveLinks()) {
    throw new CallError(status.UNIMPLEMENTED, "The embedded log does not resolve links.");
  }
  const stream = options.getStream();
  if (stream !== undefined && options.hasFilter()) {
    throw createInvalidArgumentError("A filter is supported only in a read of all streams.");
  }
  const isBackwards = options.getReadDirection() === BACKWARDS;
  const maxCount = options.hasSubscription() ? "live" : parseUint64(options.getCount());
  if (isBackwards && maxCount === "live") throw createInvalidArgumentError("A subscription cannot read backwards.");
  const start = stream === undefined ? parseStartPosition(options.getAll()) : parseStartRevision(stream);
  if (stream !== undefined && maxCount !== "live") validateStreamRead(start, maxCount, isBackwards);
  return {
    stream: stream === undefined ? undefined : parseStreamName(stream.getStreamIdentifier()),
    start,
    isBackwards,
    maxCount,
    filter: parseFilter(options),
    requiresStructuredIds: options.getUuidOption()?.hasStructured() ?? false,
  };
}

function parseStartRevision(options: ReadReq.Options.StreamOptions): ReadStart {
  if (options.hasRevision()) return parseUint64(options.getRevision());
  return options.hasEnd() ? "end" : "start";
}

function parseStartPosition(options: ReadReq.Options.AllOptions | undefined): ReadStart {
  if (options === undefined) throw createInvalidArgumentError("A read must specify a stream or all streams.");
  const position = options.getPosition();
  if (position !== undefined) return parseUint64(position.getCommitPosition());
  return options.hasEnd() ? "end" : "start";
}

/**
 * Refuses the same reads of a stream as EventStoreDB.
 * @throws CallError if a read requests no events, or starts forwards at the end
 */
function validateStreamRead(start: ReadRequest["start"], maxCount: number, isBackwards: boolean): void {
  if (maxCount === 0) throw createInvalidArgumentError("A read of a stream must request at least one event.");
  if (start === "end" && !isBackwards) {
    throw createInvalidArgumentError("A forward read of a stream cannot start at the end of the stream.");
  }
}
