import type { IncomingMessage } from "node:http";

/** All bytes of a body, or the reason why they were not read. */
export type BodyReadResult = Buffer | "too_large" | "no_room" | "cut_off";

/** Limits on bodies, in bytes. */
export interface BodyLimits {
  /** For one body. */
  maxBytes: number;
  /** For all bodies in memory at the same time, complete or not. */
  maxTotalBytes: number;
}

/** Pieces of a body are joined at this number, because each piece takes more memory than its bytes. */
const MAX_PIECES = 64;

/**
 * Reads request bodies completely, in bounded memory. If all bodies together exceed the limit, the body that has been
 * incomplete for the longest time is refused, so that slow clients do not block others.
 */
export class RequestBodies {
  readonly #limits: BodyLimits;
  /** Refuses each incomplete body, the oldest first. */
  readonly #incomplete = new Set<() => void>();
  #held = 0;

  constructor(limits: BodyLimits) {
    this.#limits = limits;
  }

  /** Reads a body. Its bytes count as held until `release` is called with it. */
  read(request: IncomingMessage): Promise<BodyReadResult> {
    if (Number(request.headers["content-length"]) > this.#limits.maxBytes)
      return Promise.resolve("too_large");
    return new Promise((resolve) => {
      let pieces: Buffer[] = [];
      let size = 0;
      const settle = (result: BodyReadResult) => {
        this.#incomplete.delete(refuse);
        request.off("data", take).off("end", finish).off("close", abandon);
        if (!Buffer.isBuffer(result)) this.#held -= size;
        resolve(result);
      };
      const take = (chunk: Buffer) => {
        size += chunk.length;
        this.#held += chunk.length;
        pieces.push(chunk);
        if (pieces.length === MAX_PIECES) pieces = [Buffer.concat(pieces)];
        if (size > this.#limits.maxBytes) settle("too_large");
        else this.#makeRoom();
      };
      const finish = () => settle(Buffer.concat(pieces));
      const abandon = () => settle("cut_off");
      const refuse = () => settle("no_room");
      this.#incomplete.add(refuse);
      request.on("data", take).on("end", finish).on("close", abandon);
    });
  }

  /** Frees the memory budget of a body. */
  release(body: Buffer): void {
    this.#held -= body.length;
  }

  #makeRoom(): void {
    for (const refuseOldest of this.#incomplete) {
      if (this.#held <= this.#limits.maxTotalBytes) return;
      refuseOldest();
    }
  }
}
