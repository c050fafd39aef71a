import type { ReadResp } from "@eventstore/db-client/generated/streams_pb.js";
import { shared, streams } from "../model/pb.ts";
import { type LogEvent, readCreationTime, readWireBytes } from "../model/record.ts";
import { getFirstReadableRevision, isReadable, type StreamState } from "../model/stream-metadata.ts";
import { readAllEvents, readStreamEvents } from "../storage/log-reader.ts";
import type { Store } from "../store/store.ts";
import { createStreamDeletedError } from "./errors.ts";
import type { FlowControlledWriter } from "./flow-controlled-writer.ts";
import type { ReadRequest } from "./read-request.ts";

/** Streams.Read without a subscription: reads a stream or all streams, forwards or backwards. */

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
  // Events that are too old do not count.
  const maxCount = minCreatedAt === undefined ? count : Number.POSITIVE_INFINITY;
  const toRevision = request.isBackwards
    ? Math.max(endRevision, fromRevision - maxCount + 1)
    : Math.min(endRevision, fromRevision + maxCount - 1);
  await sendRevisions(context, stream, fromRevision, toRevision, { count, minCreatedAt });
}

/**
 * Returns the time before which events are too old to be read, in milliseconds since 1970; undefined without a maximum
 * age.
 */
export function getMinCreationTime({ maxAgeSeconds }: StreamState): number | undefined {
  return maxAgeSeconds > 0 ? Date.now() - maxAgeSeconds * 1000 : undefined;
}

interface RevisionLimits {
  readonly count: number;
  /** Milliseconds since 1970. Older events are not sent. */
  readonly minCreatedAt: number | undefined;
}

/** Sends the events from the first to the last revision, both included. */
export async function sendRevisions(
  context: ReadContext,
  stream: string,
  fromRevision: number,
  toRevision: number,
  { count, minCreatedAt }: RevisionLimits,
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

/** Sends events of all streams. A forward read includes the event at the start position; a backward read does not. */
async function sendAllEvents(context: ReadContext, count: number): Promise<void> {
  const { store, writer, request } = context;
  const { isBackwards, filter } = request;
  const fromPosition = resolveStart(request.start, 0, Number.MAX_SAFE_INTEGER);
  let remainingCount = count;
  for await (const page of readAllEvents(store.log, fromPosition, isBackwards)) {
    for (const event of page) {
      if (filter?.matches(event.record) === false) continue;
      if (sendEvent(context, event)) await writer.waitForDrain();
      remainingCount -= 1;
      if (remainingCount === 0) return;
    }
    if (writer.isClosed) return;
  }
}

export function resolveStart(requestedStart: ReadRequest["start"], start: number, end: number): number {
  if (requestedStart === "start") return start;
  return requestedStart === "end" ? end : requestedStart;
}

/** Returns true if the caller must await `waitForDrain` before the next event. */
export function sendEvent({ writer, request }: ReadContext, event: LogEvent): boolean {
  const wireBytes = readWireBytes(event.record);
  return writer.send(request.requiresStructuredIds ? reencodeWithStructuredId(wireBytes) : wireBytes);
}

/**
 * Encodes the messages of Streams.Read. Events with text ids are not encoded here, because they are stored in encoded
 * form.
 */

export function encodeConfirmation(subscriptionId: string): Uint8Array {
  const message = new streams.ReadResp.SubscriptionConfirmation().setSubscriptionId(subscriptionId);
  return new streams.ReadResp().setConfirmation(message).serializeBinary();
}

/** Encodes a checkpoint: the position that a filtered subscription has reached. */
export function encodeCheckpoint(position: number): Uint8Array {
  const text = String(position);
  const message = new streams.ReadResp.Checkpoint().setCommitPosition(text).setPreparePosition(text);
  return new streams.ReadResp().setCheckpoint(message).serializeBinary();
}

/** Encodes the signal that a subscription has caught up. All later events are live. */
export function encodeCaughtUp(): Uint8Array {
  return new streams.ReadResp().setCaughtUp(new streams.ReadResp.CaughtUp()).serializeBinary();
}

/** Used if the stream does not exist or is soft-deleted. */
function encodeStreamNotFound(stream: string): Uint8Array {
  const identifier = new shared.StreamIdentifier().setStreamName(Buffer.from(stream));
  const message = new streams.ReadResp.StreamNotFound().setStreamIdentifier(identifier);
  return new streams.ReadResp().setStreamNotFound(message).serializeBinary();
}

/** Re-encodes an event for clients that request structured ids, which are two 64-bit numbers instead of a text. */
function reencodeWithStructuredId(wireBytes: Uint8Array): Uint8Array {
  const message = streams.ReadResp.deserializeBinary(wireBytes);
  const id = message.getEvent()?.getEvent()?.getId();
  if (id !== undefined) setStructuredId(id);
  return (message satisfies ReadResp).serializeBinary();
}

function setStructuredId(id: InstanceType<typeof shared.UUID>): void {
  const hex = id.getString().replaceAll("-", "");
  const formatHalf = (start: number) => BigInt.asIntN(64, BigInt(`0x${hex.slice(start, start + 16)}`)).toString();
  const structuredId = new shared.UUID.Structured();
  id.setStructured(structuredId.setMostSignificantBits(formatHalf(0)).setLeastSignificantBits(formatHalf(16)));
}
