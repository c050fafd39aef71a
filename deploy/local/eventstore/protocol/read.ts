/** Streams.Read without a subscription: reads a stream or all streams, forwards or backwards. */
import { type LogEvent, readCreationTime, readWireBytes } from "../model/record.ts";
import { getFirstReadableRevision, isReadable, type StreamState } from "../model/stream-state.ts";
import { readAllEvents, readStreamEvents } from "../storage/log-reader.ts";
import type { Store } from "../store/store.ts";
import { createStreamDeletedError } from "./errors.ts";
import type { FlowControlledWriter } from "./flow-controlled-writer.ts";
import { encodeStreamNotFound, reencodeWithStructuredId } from "./messages.ts";
import type { ReadRequest } from "./read-request.ts";

/** A call of Streams.Read: the log, the client that receives the messages, and the client's request. */
export interface ReadContext {
  readonly store: Store;
  readonly writer: FlowControlledWriter;
  readonly request: ReadRequest;
}

/**
 * Sends the requested events, but does not end the call.
 * @throws CallError if the stream is tombstoned
 */
export async function sendEvents(context: ReadContext, count: number): Promise<void> {
  const { stream } = context.request;
  if (count === 0) return;
  if (stream === undefined) await sendAllEvents(context, count);
  else await sendStreamEvents(context, stream, count);
}

async function sendStreamEvents(context: ReadContext, stream: string, count: number): Promise<void> {
  const { store, writer, request } = context;
  const state = store.getStreamState(stream);
  if (state.isTombstoned) throw createStreamDeletedError(stream);
  if (!isReadable(state)) {
    writer.send(encodeStreamNotFound(stream));
    return;
  }
  const { lastRevision } = state;
  const oldestRevision = getFirstReadableRevision(stream, state);
  const startRevision = resolveStart(request.start, 0, lastRevision);
  const fromRevision = request.isBackwards
    ? Math.min(startRevision, lastRevision)
    : Math.max(startRevision, oldestRevision);
  const endRevision = request.isBackwards ? oldestRevision : lastRevision;
  if (request.isBackwards ? fromRevision < endRevision : fromRevision > endRevision) return;
  const minCreatedAt = getMinCreationTime(state);
  if (minCreatedAt !== undefined) {
    return sendRevisions(context, stream, fromRevision, endRevision, { count, minCreatedAt });
  }
  const toRevision = request.isBackwards
    ? Math.max(endRevision, fromRevision - count + 1)
    : Math.min(endRevision, fromRevision + count - 1);
  await sendRevisions(context, stream, fromRevision, toRevision);
}

/** Returns the time, in milliseconds since 1970, before which events are too old to be read; undefined if none are. */
export function getMinCreationTime({ maxAgeSeconds }: StreamState): number | undefined {
  return maxAgeSeconds > 0 ? Date.now() - maxAgeSeconds * 1000 : undefined;
}

interface RevisionLimits {
  /** Maximum number of events to send. */
  readonly count: number;
  /** Time in milliseconds since 1970. Older events are not sent. */
  readonly minCreatedAt: number | undefined;
}

const NO_LIMITS: RevisionLimits = { count: Number.POSITIVE_INFINITY, minCreatedAt: undefined };

/** Sends the events of a stream from the first to the last revision, both included. */
export async function sendRevisions(
  context: ReadContext,
  stream: string,
  fromRevision: number,
  toRevision: number,
  { count, minCreatedAt }: RevisionLimits = NO_LIMITS,
): Promise<void> {
  const { store, writer } = context;
  let remainingCount = count;
  for await (const page of readStreamEvents(store.log, stream, fromRevision, toRevision)) {
    for (const event of page) {
      if (minCreatedAt !== undefined && readCreationTime(event.record) < minCreatedAt) continue;
      if (sendEvent(context, event)) await writer.waitForDrain();
      remainingCount -= 1;
      if (remainingCount === 0) return;
    }
    if (writer.isClosed) return;
  }
}

/** Sends events of all streams. Only a forward read includes the event at the start position. */
async function sendAllEvents(context: ReadContext, count: number): Promise<void> {
  const { store, writer, request } = context;
  const { isBackwards, filter } = request;
  const fromPosition = resolveStart(request.start, 0, Number.MAX_SAFE_INTEGER);
  let remainingCount = count;
  for await (const page of readAllEvents(store.log, {
    fromPosition,
    isInclusive: !isBackwards,
    isBackwards,
  })) {
    for (const event of page) {
      if (filter?.matches(event.record) === false) continue;
      if (sendEvent(context, event)) await writer.waitForDrain();
      remainingCount -= 1;
      if (remainingCount === 0) return;
    }
    if (writer.isClosed) return;
  }
}

/** Converts the start of a read to a number. `start` and `end` are the numbers for the values "start" and "end". */
export function resolveStart(requestedStart: ReadRequest["start"], start: number, end: number): number {
  if (requestedStart === "start") return start;
  return requestedStart === "end" ? end : requestedStart;
}

/** Sends an event. Returns true if the caller must await `waitForDrain` before the next event. */
export function sendEvent({ writer, request }: ReadContext, event: LogEvent): boolean {
  const wireBytes = readWireBytes(event.record);
  return writer.send(request.requiresStructuredIds ? reencodeWithStructuredId(wireBytes) : wireBytes);
}
