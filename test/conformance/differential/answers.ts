/**
 * Describes the answers of a server without times, generated ids and positions, so that two servers can be compared.
 */
import {
  type AllStreamResolvedEvent,
  MaxAppendSizeExceededError,
  type Position,
  type ResolvedEvent,
  WrongExpectedVersionError,
} from "@eventstore/db-client";

/** Result of a call, as a JSON value. */
export type Answer = unknown;

/** Longest text in an answer. Longer texts are replaced by their length. */
const MAX_TEXT_LENGTH = 300;

/** Short names for streams and event ids, which are different in each sequence. */
export interface SequenceNames {
  shortenStream(stream: string): string;
  /** Returns a short name of an event id; "generated" if the server generated the id. */
  shortenId(id: string): string;
}

export function describeEvent(
  { event, link, commitPosition }: ResolvedEvent | AllStreamResolvedEvent,
  names: SequenceNames,
) {
  if (event === undefined) return { event: "none", hasLink: link !== undefined };
  const { id, streamId, revision, type, isJson, data, metadata, position } = event;
  return {
    stream: names.shortenStream(streamId),
    revision: String(revision),
    id: names.shortenId(id),
    type,
    isJson,
    data: describeContent(data),
    metadata: describeContent(metadata),
    position: describePositions(position, commitPosition),
    hasLink: link !== undefined,
  };
}

function describePositions(position: Position | undefined, commitPosition: bigint | undefined): string {
  if (position === undefined) return "none";
  if (position.commit !== position.prepare) return "prepare differs from commit";
  return commitPosition === undefined || commitPosition === position.commit ? "consistent" : "inconsistent";
}

function describeContent(content: unknown): string {
  const text =
    content instanceof Uint8Array ? `bytes ${Buffer.from(content).toString("hex")}` : JSON.stringify(content);
  return text === undefined || text.length <= MAX_TEXT_LENGTH ? String(text) : `${text.length} characters`;
}

/** Error message of KurrentDB for a single event that is too large. The client has no class for this error. */
const EVENT_SIZE_PATTERN = /Maximum ?Append ?Event ?Size/;

/** Describes an error by class and fields. Omits the message, because the servers use different messages. */
export function describeError(error: unknown, names: SequenceNames): Answer {
  if (!(error instanceof Error)) return { error: String(error) };
  if (error instanceof MaxAppendSizeExceededError || EVENT_SIZE_PATTERN.test(error.message)) return "too large";
  const { streamName } = error as { streamName?: unknown };
  const stream = typeof streamName === "string" ? { stream: names.shortenStream(streamName) } : {};
  const versions =
    error instanceof WrongExpectedVersionError
      ? { expected: String(error.expectedVersion), actual: String(error.actualVersion) }
      : {};
  // Any other error than an error of the client is a mistake in the test.
  const message = "type" in error ? {} : { message: error.message };
  return { error: error.constructor.name, ...stream, ...versions, ...message };
}
