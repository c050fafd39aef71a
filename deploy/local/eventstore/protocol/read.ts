/** Streams.Read without a subscription: reads a stream or all streams, forwards or backwards. */
import { type LogEvent, wireOf } from "../model/record.ts";
import { firstReadable, isReadable } from "../model/stream-state.ts";
import { readPositions, readRevisions } from "../storage/log-reader.ts";
import type { Store } from "../store/store.ts";
import { streamDeleted } from "./errors.ts";
import type { FlowControlledWriter } from "./flow-controlled-writer.ts";
import { streamNotFound, withStructuredId } from "./messages.ts";
import type { ReadRequest } from "./read-request.ts";

/**
 * Sends the requested events. Does not end the call.
 * @throws CallError if the stream is tombstoned
 */
export async function read(
  store: Store,
  writer: FlowControlledWriter,
  request: ReadRequest,
  count: number,
): Promise<void> {
  if (count === 0) return;
  if (request.stream === undefined) await readAll(store, writer, request, count);
  else await readStream(store, writer, request, request.stream, count);
}

async function readStream(
  store: Store,
  writer: FlowControlledWriter,
  request: ReadRequest,
  stream: string,
  count: number,
): Promise<void> {
  const state = store.stateOf(stream);
  if (state.tombstoned) throw streamDeleted(stream);
  if (!isReadable(state)) {
    writer.send(streamNotFound(stream));
    return;
  }
  const oldest = firstReadable(stream, state);
  const from = resolveStart(request.from, 0, request.backwards ? state.last : state.last + 1);
  const [first, last] = request.backwards
    ? [Math.min(from, state.last), Math.max(oldest, Math.min(from, state.last) - count + 1)]
    : [Math.max(from, oldest), Math.min(state.last, Math.max(from, oldest) + count - 1)];
  if (request.backwards ? first < last : first > last) return;
  for await (const page of readRevisions(store.log, stream, first, last)) {
    for (const event of page) await sendEvent(writer, request, event);
    if (writer.closed) return;
  }
}

/** Reads all streams. A forward read includes the event at the start position, a backward read excludes it. */
async function readAll(
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
  for await (const page of readPositions(store.log, range)) {
    for (const event of page) {
      if (request.filter?.matches(event.record) === false) continue;
      if (enqueueEvent(writer, request, event)) await writer.drained();
      left -= 1;
      if (left === 0) return;
    }
    if (writer.closed) return;
  }
}

/** Converts the start of a read to a number, given the numbers for "start" and "end". */
export function resolveStart(from: ReadRequest["from"], start: number, end: number): number {
  if (from === "start") return start;
  return from === "end" ? end : from;
}

/** Sends an event. Returns true if the caller must await `drained` before the next event. */
export function enqueueEvent(writer: FlowControlledWriter, request: ReadRequest, event: LogEvent): boolean {
  const wire = wireOf(event.record);
  return writer.send(request.structuredIds ? withStructuredId(wire) : wire);
}

async function sendEvent(writer: FlowControlledWriter, request: ReadRequest, event: LogEvent): Promise<void> {
  if (enqueueEvent(writer, request, event)) await writer.drained();
}
