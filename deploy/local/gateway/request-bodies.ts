import type { IncomingMessage } from "node:http";

/** A complete body, or the reason why the body was not read completely. */
export type BodyReadResult = Buffer | "too_large" | "out_of_memory" | "disconnected";

/** Limits on request bodies. */
export interface BodyLimits {
  /** Maximum size of one body. */
  maxBytes: number;
  /** Maximum size of all bodies in memory, including incomplete ones. */
  maxTotalBytes: number;
}

/**
 * Number of chunks after which a body's chunks are joined. Many small chunks use much more memory than one large chunk.
 */
const MAX_CHUNKS = 64;

/**
 * Reads request bodies completely, in bounded memory. If all bodies together exceed the limit, refuses the oldest
 * incomplete bodies, so that slow clients do not block other clients.
 */
export class RequestBodies {
  readonly #limits: BodyLimits;
  /** Functions that refuse the incomplete bodies. The function for the oldest body is first. */
  readonly #refuseFunctions = new Set<() => void>();
  #totalBytes = 0;

  constructor(limits: BodyLimits) {
    this.#limits = limits;
  }

  /** Reads a body. The body counts toward the total size until the caller passes it to `release`. */
  read(request: IncomingMessage): Promise<BodyReadResult> {
    if (Number(request.headers["content-length"]) > this.#limits.maxBytes) return Promise.resolve("too_large");
    return new Promise((resolve) => {
      let chunks: Buffer[] = [];
      let receivedBytes = 0;
      const settle = (readResult: BodyReadResult) => {
        this.#refuseFunctions.delete(refuseBody);
        request.off("data", onData).off("end", onEnd).off("close", onClose);
        if (!Buffer.isBuffer(readResult)) this.#totalBytes -= receivedBytes;
        resolve(readResult);
      };
      const onData = (chunk: Buffer) => {
        receivedBytes += chunk.length;
        this.#totalBytes += chunk.length;
        chunks.push(chunk);
        if (chunks.length === MAX_CHUNKS) chunks = [Buffer.concat(chunks)];
        if (receivedBytes > this.#limits.maxBytes) settle("too_large");
        else this.#refuseOldestBodies();
      };
      const onEnd = () => settle(Buffer.concat(chunks));
      const onClose = () => settle("disconnected");
      const refuseBody = () => settle("out_of_memory");
      this.#refuseFunctions.add(refuseBody);
      request.on("data", onData).on("end", onEnd).on("close", onClose);
    });
  }

  /** Subtracts a body from the total size. */
  release(body: Buffer): void {
    this.#totalBytes -= body.length;
  }

  /** Refuses incomplete bodies, the oldest first, until the total size is within the limit. */
  #refuseOldestBodies(): void {
    for (const refuseBody of this.#refuseFunctions) {
      if (this.#totalBytes <= this.#limits.maxTotalBytes) return;
      refuseBody();
    }
  }
}
