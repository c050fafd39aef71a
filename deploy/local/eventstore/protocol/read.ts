/** Streams.Read without a subscription: a stream or all streams, forwards or backwards, once. */

import { firstReadable, isReadable } from "../model/head.ts";
import { type LogEvent, wireOf } from "../model/record.ts";
import { readPositions, readRevisions } from "../storage/log-reader.ts";
import type { Store } from "../store/store.ts";
import { streamDeleted } from "./errors.ts";
import { streamNotFound, withStructuredId } from "./messages.ts";
import type { Outlet } from "./outlet.ts";
import type { ReadRequest } from "./read-request.ts";

/**
 * Sends what was asked for; the caller ends the call.
 * @throws CallError where the stream is tombstoned.
 */
export async function read(store: Store, outlet: Outlet, request: ReadRequest, count: number): Promise<void> {
  if (count === 0) return;
  if (request.stream === undefined) await readAll(store, outlet, request, count);
  else await readStream(store, outlet, request, request.stream, count);
}

async function readStream(
  store: Store,
  outlet: Outlet,
  request: ReadRequest,
  stream: string,
  count: number,
): Promise<void> {
  const head = store.head(stream);
  if (head.tombstoned) throw streamDeleted(stream);
  if (!isReadable(head)) {
    outlet.send(streamNotFound(stream));
    return;
  }
  const oldest = firstReadable(stream, head);
  const from = resolve(request.from, 0, request.backwards ? head.last : head.last + 1);
  const [first, last] = request.backwards
    ? [Math.min(from, head.last), Math.max(oldest, Math.min(from, head.last) - count + 1)]
    : [Math.max(from, oldest), Math.min(head.last, Math.max(from, oldest) + count - 1)];
  if (request.backwards ? first < last : first > last) return;
  for await (const page of readRevisions(store.log, stream, first, last)) {
    for (const event of page) await sendEvent(outlet, request, event);
    if (outlet.closed) return;
  }
}

/** Forwards the start belongs to the read, backwards it does not. */
async function readAll(store: Store, outlet: Outlet, request: ReadRequest, count: number): Promise<void> {
  const range = {
    from: resolve(request.from, 0, Number.MAX_SAFE_INTEGER),
    inclusive: !request.backwards,
    backwards: request.backwards,
  };
  let left = count;
  for await (const page of readPositions(store.log, range)) {
    for (const event of page) {
      if (request.filter?.matches(event.record) === false) continue;
      if (sendNow(outlet, request, event)) await outlet.drained();
      left -= 1;
      if (left === 0) return;
    }
    if (outlet.closed) return;
  }
}

/** A named place as a number. */
export function resolve(from: ReadRequest["from"], start: number, end: number): number {
  if (from === "start") return start;
  return from === "end" ? end : from;
}

/** Sends an event. True says that the outlet must drain before the next one. */
export function sendNow(outlet: Outlet, request: ReadRequest, event: LogEvent): boolean {
  const wire = wireOf(event.record);
  return outlet.send(request.structuredIds ? withStructuredId(wire) : wire);
}

async function sendEvent(outlet: Outlet, request: ReadRequest, event: LogEvent): Promise<void> {
  if (sendNow(outlet, request, event)) await outlet.drained();
}
