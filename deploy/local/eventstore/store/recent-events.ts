import { MAX_RECENT_BYTES, MAX_RECENT_EVENTS } from "../model/limits.ts";
import type { LogEvent } from "../model/record.ts";
import { findFirstIndex } from "../storage/log-index.ts";

/** Keeps the newest events in memory, so that live subscriptions need no disk reads. */
export class RecentEvents {
  #events: LogEvent[] = [];
  #bytes = 0;
  #droppedPosition: number;

  /** @param position last committed position; only later events are kept */
  constructor(position: number) {
    this.#droppedPosition = position;
  }

  /** Adds committed events, in order. */
  push(events: readonly LogEvent[]): void {
    for (const event of events) {
      this.#events.push(event);
      this.#bytes += event.record.length;
    }
    // Each trim moves all remaining elements. Trimming to half of the limits makes trims rare.
    if (this.#events.length > MAX_RECENT_EVENTS || this.#bytes > MAX_RECENT_BYTES) this.#trim();
  }

  /** Returns all events after a position; undefined if some of these events are no longer in memory. */
  findAfter(position: number): readonly LogEvent[] | undefined {
    if (position < this.#droppedPosition) return undefined;
    const events = this.#events;
    return events.slice(findFirstIndex(events.length, (index) => (events[index]?.position ?? 0) > position));
  }

  #trim(): void {
    let firstKeptIndex = this.#events.length;
    let keptBytes = 0;
    while (firstKeptIndex > 0 && this.#events.length - firstKeptIndex < MAX_RECENT_EVENTS / 2) {
      const recordBytes = this.#events[firstKeptIndex - 1]?.record.length ?? 0;
      if (keptBytes + recordBytes > MAX_RECENT_BYTES / 2) break;
      keptBytes += recordBytes;
      firstKeptIndex -= 1;
    }
    this.#droppedPosition = this.#events[firstKeptIndex - 1]?.position ?? this.#droppedPosition;
    this.#events = this.#events.slice(firstKeptIndex);
    this.#bytes = keptBytes;
  }
}
