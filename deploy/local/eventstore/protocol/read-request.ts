import type { ReadReq } from "@eventstore/db-client/generated/streams_pb.js";
import { status } from "@grpc/grpc-js";
import { readEventType, readStreamName } from "../model/record.ts";
import { CallError, createInvalidArgumentError } from "./errors.ts";
import { parseStreamName, parseUint64 } from "./request-parts.ts";

/** Start of a read: the start or end of the log or stream, a revision of the stream, or a log position. */
type ReadStart = number | "start" | "end";

export interface ReadRequest {
  /** Undefined to read all streams. */
  readonly stream: string | undefined;
  readonly start: ReadStart;
  readonly isBackwards: boolean;
  /** "live" for a subscription. */
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

interface EventFilter {
  matches(record: Buffer): boolean;
  /** Number of events between two checkpoints. */
  readonly checkpointInterval: number;
}

/** EventStoreDB's default, in events. */
const DEFAULT_SEARCH_WINDOW = 32;

/**
 * Parses the filter of a request. Returns undefined if the request has no filter.
 * @throws CallError if the filter is invalid
 */
function parseFilter(options: ReadReq.Options): EventFilter | undefined {
  const filter = options.getFilter();
  if (filter === undefined) return undefined;
  const readText = filter.hasEventType() ? readEventType : readStreamName;
  const expression = filter.hasEventType() ? filter.getEventType() : filter.getStreamIdentifier();
  if (expression === undefined)
    throw createInvalidArgumentError("A filter must have an expression for the event type or the stream name.");
  const matchesText = parseExpression(expression);
  return { matches: (record) => matchesText(readText(record)), checkpointInterval: computeCheckpointInterval(filter) };
}

function parseExpression(expression: ReadReq.Options.FilterOptions.Expression): (text: string) => boolean {
  const prefixes = expression.getPrefixList();
  if (prefixes.length > 0) return (text) => prefixes.some((prefix) => text.startsWith(prefix));
  const source = expression.getRegex();
  if (source === "") throw createInvalidArgumentError("A filter must have a regular expression or prefixes.");
  try {
    const regex = new RegExp(source, "u");
    return (text) => regex.test(text);
  } catch {
    throw createInvalidArgumentError("The filter's regular expression is not valid.");
  }
}

function computeCheckpointInterval(filter: ReadReq.Options.FilterOptions): number {
  const searchWindow = filter.hasMax() ? filter.getMax() : DEFAULT_SEARCH_WINDOW;
  const multiplier = filter.getCheckpointintervalmultiplier();
  if (searchWindow < 1) throw createInvalidArgumentError("A filter's search window must be greater than 0.");
  if (multiplier < 1) throw createInvalidArgumentError("A filter's checkpoint interval must be greater than 0.");
  return searchWindow * multiplier;
}
