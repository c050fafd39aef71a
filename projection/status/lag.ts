import { type EventStoreDBClient, START } from "@eventstore/db-client";
import { isCatalogStream } from "../../shared/domain/events/catalog.ts";
import { REQUEST_TIMEOUT_MS } from "../../shared/eventstore/log.ts";
import { BEFORE_FIRST_EVENT, readWithin } from "../../shared/eventstore/read-log.ts";

export interface Lag {
  events: number;
  /** False if the number of events is an estimate. */
  exact: boolean;
  /** Age of the first unprocessed event. */
  seconds: number;
}

/** Number of events in a page. Only one page is counted exactly, so that measuring stays cheap at any lag. */
const PAGE_SIZE = 1_000;

/**
 * Measures how far a role is behind the end of the log. The meter remembers where the role's first unprocessed event is,
 * so that repeated measurements read only new events.
 */
export class LagMeter {
  readonly #client: EventStoreDBClient;
  #position = BEFORE_FIRST_EVENT;
  /** Up to this position, the log has no unprocessed event that concerns the role. */
  #searchedTo = BEFORE_FIRST_EVENT;

  constructor(client: EventStoreDBClient) {
    this.#client = client;
  }

  /**
   * Counts the events after a position that concern the role. If they do not fit into one page, their number is
   * estimated from the log positions of the page.
   *
   * @param position position of the last event that the role has processed
   * @param logEnd position of the last event in the log
   * @param now milliseconds since 1970
   * @throws the client's error if the log is unavailable or cannot be read in time
   */
  async measure(position: bigint, logEnd: bigint, now: number): Promise<Lag> {
    if (position >= logEnd) return { events: 0, exact: true, seconds: 0 };
    if (position < this.#position || position > this.#searchedTo) this.#searchedTo = position;
    this.#position = position;
    const deadline = performance.now() + REQUEST_TIMEOUT_MS;
    for (;;) {
      const start = this.#searchedTo;
      const { events, readCount, lastPosition } = await this.#readPage(start);
      const [first] = events;
      const isComplete = readCount <= PAGE_SIZE || lastPosition <= start;
      if (!first && !isComplete && performance.now() < deadline) {
        this.#searchedTo = lastPosition;
        continue;
      }
      if (!first) return { events: 0, exact: isComplete, seconds: 0 };
      const seconds = Math.max(0, (now - first.createdAt) / 1000);
      if (isComplete) return { events: events.length, exact: true, seconds };
      const distanceRatio = Number(logEnd - start) / Number(lastPosition - start);
      return { events: Math.max(events.length, Math.round(events.length * distanceRatio)), exact: false, seconds };
    }
  }

  async #readPage(position: bigint) {
    const fromPosition = position === BEFORE_FIRST_EVENT ? START : { commit: position, prepare: position };
    const page = this.#client.readAll({ fromPosition, maxCount: PAGE_SIZE + 1, deadline: REQUEST_TIMEOUT_MS });
    const events: { createdAt: number }[] = [];
    let readCount = 0;
    let lastPosition = position;
    for await (const { event } of readWithin(REQUEST_TIMEOUT_MS, page)) {
      readCount += 1;
      if (!event || event.position.commit <= position) continue;
      lastPosition = event.position.commit;
      if (isCatalogStream(event.streamId)) events.push({ createdAt: event.created.getTime() });
    }
    return { events, readCount, lastPosition };
  }
}
