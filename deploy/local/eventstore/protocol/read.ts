/** Streams.Read without a subscription: reads a stream or all streams, forwards or backwards. */
import { type LogEvent, readWireBytes } from "../model/record.ts";
import { getFirstReadableRevision, isReadable } from "../model/stream-state.ts";
import { readAllEvents, readStreamEvents } from "../storage/log-reader.ts";
import type { Store } from "../store/store.ts";
import { createStreamDeletedError } from "./errors.ts";
import type { FlowControlledWriter } from "./flow-controlled-writer.ts";
import { encodeStreamNotFound, encodeWithStructuredId } from "./messages.ts";
import type { ReadRequest } from "./read-request.ts";

/**
 * Sends the requested events, but does not end the call.
 * @throws CallError if the stream is tombstoned
 */
export async function sendEvents(
  store: Store,
  writer: FlowControlledWriter,
  request: ReadRequest,
  count: number,
): Promise<void> {
  if (count === 0) return;
  if (request.stream === undefined) await sendAllEvents(store, writer, request, count);
  else await sendStreamEvents(store, writer, request, request.stream, count);
}

async function sendStreamEvents(
  store: Store,
  writer: FlowControlledWriter,
  request: ReadRequest,
  stream: string,
  count: number,
): Promise<void> {
  const state = store.getStreamState(stream);
  if (state.isTombstoned) throw createStreamDeletedError(stream);
  if (!isReadable(state)) {
    writer.send(encodeStreamNotFound(stream));
    return;
  }
  const { lastRevision } = state;
  const oldest = getFirstReadableRevision(stream, state);
  const from = resolveStart(request.from, 0, request.backwards ? lastRevision : lastRevision + 1);
  if (request.backwards) {
    const first = Math.min(from, lastRevision);
    const last = Math.max(oldest, first - count + 1);
    if (first >= last) await sendRevisions(store, writer, request, stream, first, last);
  } else {
    const first = Math.max(from, oldest);
    const last = Math.min(lastRevision, first + count - 1);
    if (first <= last) await sendRevisions(store, writer, request, stream, first, last);
  }
}

/** Sends the events of a stream from the first to the last revision, both included. */
export async function sendRevisions(
  store: Store,
  writer: FlowControlledWriter,
  request: ReadRequest,
  stream: string,
  first: number,
  last: number,
): Promise<void> {
  for await (const page of readStreamEvents(store.log, stream, first, last)) {
    for (const event of page) if (sendEvent(writer, request, event)) await writer.waitForDrain();
    if (writer.isClosed) return;
  }
}

/** Sends events of all streams. Only a forward read includes the event at the start position. */
async function sendAllEvents(
  store: Store,
  writer: FlowControlledWriter,
  request: ReadRequest,
  count: number,
): Promise<void> {
  const range = {
    from: resolveStart(request.from, 0, Number.MAX_SAFE_INTEGER),
    inclusive: !request.backwards,
    backwards: request.backwards,
  };
  let left = count;
  for await (const page of readAllEvents(store.log, range)) {
    for (const event of page) {
      if (request.filter?.matches(event.record) === false) continue;
      if (sendEvent(writer, request, event)) await writer.waitForDrain();
      left -= 1;
      if (left === 0) return;
    }
    if (writer.isClosed) return;
  }
}

/** Converts the start of a read to a number. `start` and `end` are the numbers for the values "start" and "end". */
export function resolveStart(from: ReadRequest["from"], start: number, end: number): number {
  if (from === "start") return start;
  return from === "end" ? end : from;
}

/** Sends an event. Returns true if the caller must await `waitForDrain` before the next event. */
export function sendEvent(writer: FlowControlledWriter, request: ReadRequest, event: LogEvent): boolean {
  const wire = readWireBytes(event.record);
  return writer.send(request.useStructuredIds ? encodeWithStructuredId(wire) : wire);
}
