/**
 * Streams.Read with a subscription: sends all events after a start, then each new event, until the client disconnects.
 *
 * Catch-up and live phase share one cursor, which advances with each event. So the change from catch-up to live causes no
 * gap and no repetition.
 */
import { randomUUID } from "node:crypto";
import type { LogEvent } from "../model/record.ts";
import { firstReadable } from "../model/stream-state.ts";
import { readPositions, readRevisions } from "../storage/log-reader.ts";
import type { Store } from "../store/store.ts";
import { streamDeleted } from "./errors.ts";
import type { FlowControlledWriter } from "./flow-controlled-writer.ts";
import { caughtUp, checkpoint, confirmation, fellBehind } from "./messages.ts";
import { enqueueEvent, resolveStart } from "./read.ts";
import type { ReadRequest } from "./read-request.ts";

/**
 * Runs a subscription until the client disconnects.
 * @throws CallError if the stream is or becomes tombstoned
 */
export async function subscribe(
  store: Store,
  writer: FlowControlledWriter,
  request: ReadRequest,
): Promise<void> {
  const stopListening = store.onCommit(() => writer.wake());
  try {
    writer.send(confirmation(randomUUID()));
    if (request.stream === undefined) await new AllSubscription(store, writer, request).run();
    else await followStream(store, writer, request, request.stream);
  } finally {
    stopListening();
  }
}

async function followStream(
  store: Store,
  writer: FlowControlledWriter,
  request: ReadRequest,
  stream: string,
): Promise<void> {
  let next = resolveStart(request.from, -1, store.stateOf(stream).last) + 1;
  let live = false;
  while (!writer.closed) {
    const seen = store.position;
    const state = store.stateOf(stream);
    if (state.tombstoned) throw streamDeleted(stream);
    next = Math.max(next, state.softDeleted ? state.last + 1 : firstReadable(stream, state));
    if (next <= state.last) next = await sendRevisions(store, writer, request, stream, next, state.last);
    if (!live) writer.send(caughtUp());
    live = true;
    await writer.until(() => store.position !== seen);
  }
}

/** Sends a range of revisions, including both ends. Returns the next revision to send. */
async function sendRevisions(
  store: Store,
  writer: FlowControlledWriter,
  request: ReadRequest,
  stream: string,
  from: number,
  to: number,
): Promise<number> {
  for await (const page of readRevisions(store.log, stream, from, to)) {
    for (const event of page) if (enqueueEvent(writer, request, event)) await writer.drained();
    if (writer.closed) break;
  }
  return to + 1;
}

class AllSubscription {
  readonly #store: Store;
  readonly #writer: FlowControlledWriter;
  readonly #request: ReadRequest;
  #after: number;
  #considered = 0;
  #reported: number;
  #live = false;

  constructor(store: Store, writer: FlowControlledWriter, request: ReadRequest) {
    this.#store = store;
    this.#writer = writer;
    this.#request = request;
    this.#after = resolveStart(request.from, 0, store.position);
    this.#reported = this.#after;
  }

  async run(): Promise<void> {
    while (!this.#writer.closed) {
      const recent = this.#store.recentEvents.after(this.#after);
      if (recent === undefined) await this.#catchUp();
      else if (recent.length > 0) await this.#send(recent);
      else await this.#waitLive();
    }
  }

  async #catchUp(): Promise<void> {
    if (this.#live) this.#writer.send(fellBehind());
    this.#live = false;
    const range = { from: this.#after, inclusive: false, backwards: false };
    for await (const page of readPositions(this.#store.log, range)) {
      await this.#send(page);
      if (this.#writer.closed) return;
    }
  }

  async #send(events: readonly LogEvent[]): Promise<void> {
    const { filter } = this.#request;
    for (const event of events) {
      this.#after = event.position;
      const matches = filter === undefined || filter.matches(event.record);
      if (matches && enqueueEvent(this.#writer, this.#request, event)) await this.#writer.drained();
      this.#considered += 1;
      if (filter === undefined || this.#considered < filter.checkpointInterval) continue;
      await this.#report();
      if (this.#writer.closed) return;
    }
  }

  /** Waits for new events at the end of the log. If the subscription was not live, first reports that it caught up. */
  async #waitLive(): Promise<void> {
    if (!this.#live) {
      // The checkpoint lets a client whose filter matched no event resume here.
      if (this.#request.filter !== undefined && this.#reported !== this.#after) await this.#report();
      this.#writer.send(caughtUp());
      this.#live = true;
    }
    await this.#writer.until(() => this.#store.position > this.#after);
  }

  async #report(): Promise<void> {
    this.#considered = 0;
    this.#reported = this.#after;
    if (this.#writer.send(checkpoint(this.#after))) await this.#writer.drained();
  }
}
