/** The request of Streams.Read, checked and in the log's own terms. */
import type { ReadReq } from "@eventstore/db-client/generated/streams_pb.js";
import { invalidArgument, unimplemented } from "./errors.ts";
import { type Filter, readFilter } from "./filter.ts";
import { streamName, uint64 } from "./request-parts.ts";

/** A place to start from: both ends, or a revision of a stream or a position in the log. */
export type StartPoint = number | "start" | "end";

export interface ReadRequest {
  /** Undefined for all streams. */
  readonly stream: string | undefined;
  readonly from: StartPoint;
  readonly backwards: boolean;
  /** Number of events wanted; "live" for a subscription. */
  readonly count: number | "live";
  readonly filter: Filter | undefined;
  readonly structuredIds: boolean;
}

const BACKWARDS = 1;

/** @throws CallError where the request is not valid or asks for what the log does not offer. */
export function parseReadRequest(request: ReadReq): ReadRequest {
  const options = request.getOptions();
  if (options === undefined) throw invalidArgument("A read needs its options.");
  if (options.getResolveLinks()) throw unimplemented("The embedded log does not resolve links.");
  const stream = options.getStream();
  if (stream !== undefined && options.hasFilter()) {
    throw invalidArgument("A filter works on all streams, not on one.");
  }
  const backwards = options.getReadDirection() === BACKWARDS;
  const count = options.hasSubscription() ? "live" : uint64(options.getCount());
  if (backwards && count === "live") throw invalidArgument("A subscription runs forwards.");
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
  if (options === undefined) throw invalidArgument("A read names a stream or all streams.");
  const position = options.getPosition();
  if (position !== undefined) return uint64(position.getCommitPosition());
  return options.hasEnd() ? "end" : "start";
}
