import type { EventStoreDBClient } from "@eventstore/db-client";
import { LogUnavailableError } from "../../../shared/eventstore/log.ts";
import type { StoredEvent, StoredPosition } from "../../../shared/eventstore/raw-requests.ts";
import { readAllStreams } from "../../../shared/eventstore/raw-requests.ts";
import { type EncodedEvent, encodeEvent, isCopied } from "./stored-event.ts";

interface ReaderOptions {
  request<Result>(send: () => Promise<Result>): Promise<Result>;
  signal: AbortSignal;
}

/**
 * Reads the events that a copy contains, in log order. After a failure of the log, the reader continues after the last
 * event that it returned. It holds only the few events that the client has received in advance.
 */
export class LogReader {
  readonly #client: EventStoreDBClient;
  readonly #endPosition: bigint;
  readonly #options: ReaderOptions;
  #events: AsyncGenerator<StoredEvent, void> | undefined;
  #position: StoredPosition | undefined;
  readonly #readNext = () => this.#read();

  /** @param endPosition position of an event that the log is known to hold. A read that ends before it is repeated. */
  constructor(client: EventStoreDBClient, endPosition: bigint, options: ReaderOptions) {
    this.#client = client;
    this.#endPosition = endPosition;
    this.#options = options;
  }

  /** Log position of the last event that was read, including events that the copy does not contain. */
  get position(): bigint {
    return this.#position?.commit ?? 0n;
  }

  /** Returns the next event; undefined at the end of the log. A later call returns events that were appended since. */
  next(): Promise<EncodedEvent | undefined> {
    return this.#options.request(this.#readNext);
  }

  async close(): Promise<void> {
    const events = this.#events;
    this.#events = undefined;
    await events?.return();
  }

  async #read(): Promise<EncodedEvent | undefined> {
    try {
      for (;;) {
        this.#events ??= readAllStreams(this.#client, this.#position, this.#options.signal);
        const { value: event, done } = await this.#events.next();
        if (done) break;
        // A read that starts at a position begins with the event at that position.
        if (event.position.commit === this.#position?.commit) continue;
        const copiedEvent = isCopied(event) ? { ...event, encodedBytes: encodeEvent(event) } : undefined;
        this.#position = event.position;
        if (copiedEvent) return copiedEvent;
      }
    } catch (error) {
      this.#events = undefined;
      throw error;
    }
    this.#events = undefined;
    if (this.position < this.#endPosition) throw new LogUnavailableError("the event log ended a read early");
    return undefined;
  }
}
