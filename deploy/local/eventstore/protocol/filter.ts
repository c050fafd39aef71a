/** Filters of requests that read all streams or subscribe to all streams. */
import type { ReadReq } from "@eventstore/db-client/generated/streams_pb.js";
import { readEventType, readStreamName } from "../model/record.ts";
import { createInvalidArgumentError } from "./errors.ts";

export interface EventFilter {
  matches(record: Buffer): boolean;
  /** Number of events after which a subscription sends a checkpoint. */
  readonly checkpointInterval: number;
}

/** EventStoreDB's default search window, as a number of events. */
const DEFAULT_SEARCH_WINDOW = 32;

/**
 * Parses the filter of a request. Returns undefined if the request has no filter.
 * @throws CallError if the filter is invalid
 */
export function parseFilter(options: ReadReq.Options): EventFilter | undefined {
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
