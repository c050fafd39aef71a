/**
 * Streams.Read with a subscription: everything after a place, then whatever is committed, until the reader goes.
 *
 * One cursor runs through both phases and moves only with what was sent, so that the change from catching up
 * to live leaves neither a gap nor a repetition.
 */
import { randomUUID } from "node:crypto";
import { firstReadable } from "../model/head.ts";
import type { LogEvent } from "../model/record.ts";
import { readPositions, readRevisions } from "../storage/log-reader.ts";
import type { Store } from "../store/store.ts";
import { streamDeleted } from "./errors.ts";
import { caughtUp, checkpoint, confirmation, fellBehind } from "./messages.ts";
import type { Outlet } from "./outlet.ts";
import { resolve, sendNow } from "./read.ts";
import type { ReadRequest } from "./read-request.ts";

/**
 * Runs a subscription until the reader goes.
 * @throws CallError where the stream is or becomes tombstoned.
 */
export async function subscribe(store: Store, outlet: Outlet, request: ReadRequest): Promise<void> {
  const stopListening = store.onCommit(() => outlet.wake());
  try {
    outlet.send(confirmation(randomUUID()));
    if (request.stream === undefined) await new AllSubscription(store, outlet, request).run();
    else await followStream(store, outlet, request, request.stream);
  } finally {
    stopListening();
  }
}

async function followStream(
  store: Store,
  outlet: Outlet,
  request: ReadRequest,
  stream: string,
): Promise<void> {
  let next = resolve(request.from, -1, store.head(stream).last) + 1;
  let live = false;
  while (!outlet.closed) {
    const seen = store.position;
    const head = store.head(stream);
    if (head.tombstoned) throw streamDeleted(stream);
    next = Math.max(next, head.softDeleted ? head.last + 1 : firstReadable(stream, head));
    if (next <= head.last) next = await sendRevisions(store, outlet, request, stream, next, head.last);
    if (!live) outlet.send(caughtUp());
    live = true;
    await outlet.until(() => store.position !== seen);
  }
}

/** Sends the revisions between two, both included, and returns the one to go on with. */
async function sendRevisions(
  store: Store,
  outlet: Outlet,
  request: ReadRequest,
  stream: string,
  from: number,
  to: number,
): Promise<number> {
  for await (const page of readRevisions(store.log, stream, from, to)) {
    for (const event of page) if (sendNow(outlet, request, event)) await outlet.drained();
    if (outlet.closed) break;
  }
  return to + 1;
}

class AllSubscription {
  readonly #store: Store;
  readonly #outlet: Outlet;
  readonly #request: ReadRequest;
  #after: number;
  #considered = 0;
  #reported: number;
  #live = false;

  constructor(store: Store, outlet: Outlet, request: ReadRequest) {
    this.#store = store;
    this.#outlet = outlet;
    this.#request = request;
    this.#after = resolve(request.from, 0, store.position);
    this.#reported = this.#after;
  }

  async run(): Promise<void> {
    while (!this.#outlet.closed) {
      const recent = this.#store.tail.after(this.#after);
      if (recent === undefined) await this.#catchUp();
      else if (recent.length > 0) await this.#send(recent);
      else await this.#waitLive();
    }
  }

  async #catchUp(): Promise<void> {
    if (this.#live) this.#outlet.send(fellBehind());
    this.#live = false;
    const range = { from: this.#after, inclusive: false, backwards: false };
    for await (const page of readPositions(this.#store.log, range)) {
      await this.#send(page);
      if (this.#outlet.closed) return;
    }
  }

  async #send(events: readonly LogEvent[]): Promise<void> {
    const { filter } = this.#request;
    for (const event of events) {
      this.#after = event.position;
      const matches = filter === undefined || filter.matches(event.record);
      if (matches && sendNow(this.#outlet, this.#request, event)) await this.#outlet.drained();
      this.#considered += 1;
      if (filter === undefined || this.#considered < filter.checkpointEvery) continue;
      await this.#report();
      if (this.#outlet.closed) return;
    }
  }

  /** Waits at the end of the log; the first time, says so. */
  async #waitLive(): Promise<void> {
    if (!this.#live) {
      // So that a reader whose filter matched nothing need not consider it all again next time.
      if (this.#request.filter !== undefined && this.#reported !== this.#after) await this.#report();
      this.#outlet.send(caughtUp());
      this.#live = true;
    }
    await this.#outlet.until(() => this.#store.position > this.#after);
  }

  async #report(): Promise<void> {
    this.#considered = 0;
    this.#reported = this.#after;
    if (this.#outlet.send(checkpoint(this.#after))) await this.#outlet.drained();
  }
}
