import type { ReadReq } from "@eventstore/db-client/generated/streams_pb.js";
import { invalidArgument, unimplemented } from "./errors.ts";
import { type Filter, readFilter } from "./filter.ts";
import { streamName, uint64 } from "./request-parts.ts";

/** Start of a read: an end of the log or stream, a revision of a stream, or a log position. */
export type StartPoint = number | "start" | "end";

export interface ReadRequest {
  /** Name of the stream; undefined to read all streams. */
  readonly stream: string | undefined;
  readonly from: StartPoint;
  readonly backwards: boolean;
  /** Maximum number of events, or "live" for a subscription. */
  readonly count: number | "live";
  readonly filter: Filter | undefined;
  readonly structuredIds: boolean;
}

const BACKWARDS = 1;

/**
 * Parses and validates a request of Streams.Read.
 * @throws CallError if the request is invalid or uses an unsupported feature
 */
export function parseReadRequest(request: ReadReq): ReadRequest {
  const options = request.getOptions();
  if (options === undefined) throw invalidArgument("A read must contain its options.");
  if (options.getResolveLinks()) throw unimplemented("The embedded log does not resolve links.");
  const stream = options.getStream();
  if (stream !== undefined && options.hasFilter()) {
    throw invalidArgument("A filter is supported only in a read of all streams.");
  }
  const backwards = options.getReadDirection() === BACKWARDS;
  const count = options.hasSubscription() ? "live" : uint64(options.getCount());
  if (backwards && count === "live") throw invalidArgument("A subscription cannot read backwards.");
  return {
    stream: stream === undefined ? undefined : streamName(stream.getStreamIdentifier()),
    from: stream === undefined ? fromPosition(options.getAll()) : fromRevision(stream),
    backwards,
    count,
    filter: readFilter(options),
    structuredIds: options.getUuidOption()?.hasStructured() ?? false,
  };
}

function fromRevision(options: ReadReq.Options.StreamOptions): StartPoint {
  if (options.hasRevision()) return uint64(options.getRevision());
  return options.hasEnd() ? "end" : "start";
}

function fromPosition(options: ReadReq.Options.AllOptions | undefined): StartPoint {
  if (options === undefined) throw invalidArgument("A read must specify a stream or all streams.");
  const position = options.getPosition();
  if (position !== undefined) return uint64(position.getCommitPosition());
  return options.hasEnd() ? "end" : "start";
}
