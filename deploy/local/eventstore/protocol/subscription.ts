/**
 * Streams.Read with a subscription: sends all events after the start position and then each new event, until the client
 * disconnects.
 *
 * The catch-up phase and the live phase share one cursor, which advances with each event. So the subscription neither
 * skips nor repeats an event when it becomes live.
 */
import { randomUUID } from "node:crypto";
import type { LogEvent } from "../model/record.ts";
import { getFirstReadableRevision } from "../model/stream-state.ts";
import { readAllEvents } from "../storage/log-reader.ts";
import type { Store } from "../store/store.ts";
import { createStreamDeletedError } from "./errors.ts";
import type { FlowControlledWriter } from "./flow-controlled-writer.ts";
import { encodeCaughtUp, encodeCheckpoint, encodeConfirmation, encodeFellBehind } from "./messages.ts";
import { resolveStart, sendEvent, sendRevisions } from "./read.ts";
import type { ReadRequest } from "./read-request.ts";

/**
 * Runs a subscription until the client disconnects.
 * @throws CallError if the stream is or becomes tombstoned
 */
export async function subscribe(store: Store, writer: FlowControlledWriter, request: ReadRequest): Promise<void> {
  const stopListening = store.onCommit(() => writer.wake());
  try {
    writer.send(encodeConfirmation(randomUUID()));
    if (request.stream === undefined) await new AllStreamsSubscription(store, writer, request).run();
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
  let next = resolveStart(request.from, -1, store.getStreamState(stream).lastRevision) + 1;
  let live = false;
  while (!writer.isClosed) {
    const seen = store.lastPosition;
    const state = store.getStreamState(stream);
    if (state.isTombstoned) throw createStreamDeletedError(stream);
    const last = state.lastRevision;
    next = Math.max(next, state.isSoftDeleted ? last + 1 : getFirstReadableRevision(stream, state));
    if (next <= last) await sendRevisions(store, writer, request, stream, next, last);
    next = Math.max(next, last + 1);
    if (!live) writer.send(encodeCaughtUp());
    live = true;
    await writer.waitUntil(() => store.lastPosition !== seen);
  }
}

class AllStreamsSubscription {
  readonly #store: Store;
  readonly #writer: FlowControlledWriter;
  readonly #request: ReadRequest;
  #lastPosition: number;
  #eventsSinceCheckpoint = 0;
  #lastCheckpoint: number;
  #isLive = false;

  constructor(store: Store, writer: FlowControlledWriter, request: ReadRequest) {
    this.#store = store;
    this.#writer = writer;
    this.#request = request;
    this.#lastPosition = resolveStart(request.from, 0, store.lastPosition);
    this.#lastCheckpoint = this.#lastPosition;
  }

  async run(): Promise<void> {
    while (!this.#writer.isClosed) {
      const recent = this.#store.recentEvents.findAfter(this.#lastPosition);
      if (recent === undefined) await this.#catchUp();
      else if (recent.length > 0) await this.#sendEvents(recent);
      else await this.#waitForEvents();
    }
  }

  async #catchUp(): Promise<void> {
    if (this.#isLive) this.#writer.send(encodeFellBehind());
    this.#isLive = false;
    const range = { from: this.#lastPosition, inclusive: false, backwards: false };
    for await (const page of readAllEvents(this.#store.log, range)) {
      await this.#sendEvents(page);
      if (this.#writer.isClosed) return;
    }
  }

  async #sendEvents(events: readonly LogEvent[]): Promise<void> {
    const { filter } = this.#request;
    for (const event of events) {
      this.#lastPosition = event.position;
      const matches = filter === undefined || filter.matches(event.record);
      if (matches && sendEvent(this.#writer, this.#request, event)) await this.#writer.waitForDrain();
      this.#eventsSinceCheckpoint += 1;
      if (filter === undefined || this.#eventsSinceCheckpoint < filter.checkpointInterval) continue;
      await this.#sendCheckpoint();
      if (this.#writer.isClosed) return;
    }
  }

  /**
   * Waits for new events at the end of the log. If the subscription was not live yet, first sends the signal that it
   * has caught up.
   */
  async #waitForEvents(): Promise<void> {
    if (!this.#isLive) {
      // The client can resume from this checkpoint even if the filter matched no event.
      if (this.#request.filter !== undefined && this.#lastCheckpoint !== this.#lastPosition)
        await this.#sendCheckpoint();
      this.#writer.send(encodeCaughtUp());
      this.#isLive = true;
    }
    await this.#writer.waitUntil(() => this.#store.lastPosition > this.#lastPosition);
  }

  async #sendCheckpoint(): Promise<void> {
    this.#eventsSinceCheckpoint = 0;
    this.#lastCheckpoint = this.#lastPosition;
    if (this.#writer.send(encodeCheckpoint(this.#lastPosition))) await this.#writer.waitForDrain();
  }
}
