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
    let firstKept = this.#events.length;
    let bytes = 0;
    while (firstKept > 0 && this.#events.length - firstKept < MAX_RECENT_EVENTS / 2) {
      const size = this.#events[firstKept - 1]?.record.length ?? 0;
      if (bytes + size > MAX_RECENT_BYTES / 2) break;
      bytes += size;
      firstKept -= 1;
    }
    this.#droppedPosition = this.#events[firstKept - 1]?.position ?? this.#droppedPosition;
    this.#events = this.#events.slice(firstKept);
    this.#bytes = bytes;
  }
}
