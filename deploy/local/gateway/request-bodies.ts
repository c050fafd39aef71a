import type { IncomingMessage } from "node:http";

/** What became of a body: all its bytes, or the reason why they were not read. */
export type BodyRead = Buffer | "too_large" | "no_room" | "cut_off";

/** Limits on bodies. Bytes. */
export interface BodyLimits {
  /** Of one body. */
  each: number;
  /** Of all bodies that are held at the same time, complete or not. */
  all: number;
}

/** A body that comes byte by byte is put together now and then, since each piece costs more memory than its bytes. */
const MAX_PIECES = 64;

/**
 * Reads request bodies completely, in bounded memory. If all bodies together need more than there is, the body that has
 * been incomplete for longest gives way: a client that dawdles never takes room from one that does not.
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
  read(request: IncomingMessage): Promise<BodyRead> {
    if (Number(request.headers["content-length"]) > this.#limits.each) return Promise.resolve("too_large");
    return new Promise((resolve) => {
      let pieces: Buffer[] = [];
      let size = 0;
      const settle = (result: BodyRead) => {
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
        if (size > this.#limits.each) settle("too_large");
        else this.#makeRoom();
      };
      const finish = () => settle(Buffer.concat(pieces));
      const abandon = () => settle("cut_off");
      const refuse = () => settle("no_room");
      this.#incomplete.add(refuse);
      request.on("data", take).on("end", finish).on("close", abandon);
    });
  }

  /** Gives the room of a body back. */
  release(body: Buffer): void {
    this.#held -= body.length;
  }

  #makeRoom(): void {
    for (const refuseOldest of this.#incomplete) {
      if (this.#held <= this.#limits.all) return;
      refuseOldest();
    }
  }
}
