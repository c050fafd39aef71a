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
import { createStreamDeletedError } from "./errors.ts";
import { encodeCaughtUp, encodeCheckpoint, encodeConfirmation } from "./messages.ts";
import { type ReadContext, resolveStart, sendEvent, sendRevisionRange } from "./read.ts";

/**
 * Runs a subscription until the client disconnects.
 * @throws CallError if the stream is or becomes tombstoned
 */
export async function subscribe(read: ReadContext): Promise<void> {
  const { store, writer, request } = read;
  const stopListening = store.onCommit(() => writer.wake());
  try {
    writer.send(encodeConfirmation(randomUUID()));
    if (request.stream === undefined) await new AllStreamsSubscription(read).run();
    else await followStream(read, request.stream);
  } finally {
    stopListening();
  }
}

async function followStream(read: ReadContext, stream: string): Promise<void> {
  const { store, writer, request } = read;
  let next = resolveStart(request.from, -1, store.getStreamState(stream).lastRevision) + 1;
  let hasCaughtUp = false;
  while (!writer.isClosed) {
    const seenPosition = store.lastPosition;
    const state = store.getStreamState(stream);
    if (state.isTombstoned) throw createStreamDeletedError(stream);
    const last = state.lastRevision;
    next = Math.max(next, state.isSoftDeleted ? last + 1 : getFirstReadableRevision(stream, state));
    if (next <= last) await sendRevisionRange(read, stream, next, last);
    next = Math.max(next, last + 1);
    if (!hasCaughtUp) writer.send(encodeCaughtUp());
    hasCaughtUp = true;
    await writer.waitUntil(() => store.lastPosition !== seenPosition);
  }
}

class AllStreamsSubscription {
  readonly #read: ReadContext;
  #lastPosition: number;
  #eventsSinceCheckpoint = 0;
  #lastCheckpoint: number;
  #isLive = false;

  constructor(read: ReadContext) {
    this.#read = read;
    this.#lastPosition = resolveStart(read.request.from, 0, read.store.lastPosition);
    this.#lastCheckpoint = this.#lastPosition;
  }

  async run(): Promise<void> {
    while (!this.#read.writer.isClosed) {
      const recent = this.#read.store.recentEvents.findAfter(this.#lastPosition);
      if (recent === undefined) await this.#catchUp();
      else if (recent.length > 0) await this.#sendEvents(recent);
      else await this.#waitForEvents();
    }
  }

  async #catchUp(): Promise<void> {
    this.#isLive = false;
    const range = { from: this.#lastPosition, isInclusive: false, isBackwards: false };
    for await (const page of readAllEvents(this.#read.store.log, range)) {
      await this.#sendEvents(page);
      if (this.#read.writer.isClosed) return;
    }
  }

  async #sendEvents(events: readonly LogEvent[]): Promise<void> {
    const { filter } = this.#read.request;
    for (const event of events) {
      this.#lastPosition = event.position;
      const isMatch = filter === undefined || filter.matches(event.record);
      if (isMatch && sendEvent(this.#read, event)) await this.#read.writer.waitForDrain();
      this.#eventsSinceCheckpoint += 1;
      if (filter === undefined || this.#eventsSinceCheckpoint < filter.checkpointInterval) continue;
      await this.#sendCheckpoint();
      if (this.#read.writer.isClosed) return;
    }
  }

  /**
   * Waits for new events at the end of the log. If the subscription was not live yet, first sends the signal that it
   * has caught up.
   */
  async #waitForEvents(): Promise<void> {
    if (!this.#isLive) {
      // The client can resume from this checkpoint even if the filter matched no event.
      if (this.#read.request.filter !== undefined && this.#lastCheckpoint !== this.#lastPosition)
        await this.#sendCheckpoint();
      this.#read.writer.send(encodeCaughtUp());
      this.#isLive = true;
    }
    await this.#read.writer.waitUntil(() => this.#read.store.lastPosition > this.#lastPosition);
  }

  async #sendCheckpoint(): Promise<void> {
    this.#eventsSinceCheckpoint = 0;
    this.#lastCheckpoint = this.#lastPosition;
    if (this.#read.writer.send(encodeCheckpoint(this.#lastPosition))) await this.#read.writer.waitForDrain();
  }
}
