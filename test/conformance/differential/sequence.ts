import { randomUUID } from "node:crypto";
import type { SequenceNames } from "./answers.ts";
import { EVENT_COUNT, STREAM_COUNT } from "./calls.ts";

/** Streams and event ids of one sequence of calls. Both servers get the same names and ids. */
export class Sequence implements SequenceNames {
  readonly #name = randomUUID();
  readonly streams: readonly string[];
  readonly eventIds: readonly string[] = Array.from({ length: EVENT_COUNT }, () => randomUUID());
  /** Prefix of the first two streams and of the last stream. */
  readonly prefix = `${this.#name}-a`;
  /** Stream and type of the events at the end of the sequence. Every filter includes them. */
  readonly lastStream = `${this.prefix}-last`;
  readonly lastType = "AlphaLast";
  /** Stream of events that are written only to wait for earlier writes. It is not part of the sequence. */
  readonly settlingStream = `settling-${randomUUID()}`;

  constructor() {
    const names = [`${this.prefix}-0`, `${this.prefix}-1`, `${this.#name}-b ~/+`, `$${this.#name}-system`];
    this.streams = names.slice(0, STREAM_COUNT);
  }

  isOwnStream(stream: string): boolean {
    return stream.includes(this.#name);
  }

  shortenStream(stream: string): string {
    return stream.replace(this.#name, "…");
  }

  shortenId(id: string): string {
    const index = this.eventIds.indexOf(id);
    return index < 0 ? "generated" : `id ${index}`;
  }
}
