import { createHash } from "node:crypto";

/** Number and hash of the events of a log. */
export interface LogSummary {
  events: number;
  /** SHA-256 of the encoded events, in hexadecimal digits. */
  sha256: string;
}

/** Counts and hashes the encoded events of a log, in log order. */
export class LogDigest {
  readonly #hash = createHash("sha256");
  #count = 0;

  get count(): number {
    return this.#count;
  }

  add(encodedEvent: Buffer): void {
    this.#hash.update(encodedEvent);
    this.#count += 1;
  }

  /** Returns the result. No more events can be added afterwards. */
  finish(): LogSummary {
    return { events: this.#count, sha256: this.#hash.digest("hex") };
  }
}
