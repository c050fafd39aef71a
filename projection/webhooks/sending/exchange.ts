import type { ClientRequest, IncomingMessage } from "node:http";

/** The answer's body is longer than the limit. */
export class ResponseTooLongError extends Error {
  override readonly name = "ResponseTooLongError";
}

/** The answer is valid HTTP, but not an answer to a plain POST. */
export class InvalidResponseError extends Error {
  override readonly name = "InvalidResponseError";
}

/** Most bytes of an answer's body that are kept, and most that are read. */
const MAX_KEPT_BYTES = 1_024;
const MAX_ANSWER_BYTES = 1024 ** 2;

/** Most informational answers (1xx) before the final one. */
const MAX_INFORMATIONAL_ANSWERS = 16;

/** One request, and the part of its answer that has arrived. */
export class Exchange {
  /** Null until a final answer begins. */
  statusCode: number | null = null;
  /** The answer's Retry-After header, unchanged. */
  retryAfter: string | null = null;
  #kept: Buffer[] = [];
  #length = 0;
  #informational = 0;
  #isCut = false;
  #request: ClientRequest | undefined;

  /**
   * Sends the request and reads its answer.
   *
   * If the receiver closes a kept connection before the answer begins, the request is sent once more on a fresh
   * connection: the receiver most likely closed the connection before the request arrived. A receiver that did process
   * it recognises the delivery's id, as with every retry.
   *
   * @param open starts the request, on a kept connection unless `fresh`
   * @param onConnected called whenever the request gets a connection and is sent
   * @throws the connection's error, {@link ResponseTooLongError}, or {@link InvalidResponseError}
   */
  async run(open: (fresh: boolean) => ClientRequest, body: string, onConnected: () => void): Promise<void> {
    // The check of the destination may have taken all the time of the attempt.
    if (this.#isCut) throw new Error("The attempt is over.");
    try {
      await this.#send(open(false), body, onConnected);
    } catch (error) {
      if (!this.#mayBeStale(error)) throw error;
      await this.#send(open(true), body, onConnected);
    }
  }

  /** The beginning of the answer's body, fit for a Postgres column: no NUL, no partial character at the end. */
  get answer(): string | null {
    if (this.statusCode === null) return null;
    return new TextDecoder().decode(Buffer.concat(this.#kept), { stream: true }).replaceAll("\0", "");
  }

  /** Ends the exchange now. A request that is not sent yet is never sent. */
  cut(): void {
    this.#isCut = true;
    this.#request?.destroy();
  }

  #send(request: ClientRequest, body: string, onConnected: () => void): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#request = request;
      const fail = (error: Error) => {
        reject(error);
        request.destroy();
      };
      request.on("error", fail);
      request.once("socket", (socket) => {
        if (request.reusedSocket) return onConnected();
        socket.once("encrypted" in socket ? "secureConnect" : "connect", onConnected);
      });
      request.on("information", () => {
        this.#informational += 1;
        if (this.#informational <= MAX_INFORMATIONAL_ANSWERS) return;
        fail(new InvalidResponseError("too many informational answers"));
      });
      const refuse = () => fail(new InvalidResponseError("the receiver switched protocols"));
      request.once("upgrade", refuse);
      request.once("response", (answer) => {
        // Data that arrives in one piece is parsed completely, even after the request was destroyed.
        if (request.destroyed) return;
        if (answer.statusCode === 101) refuse();
        else this.#read(answer, resolve, fail);
      });
      request.end(body);
    });
  }

  #read(answer: IncomingMessage, onEnd: () => void, onError: (error: Error) => void): void {
    this.statusCode = answer.statusCode ?? null;
    this.retryAfter = answer.headers["retry-after"] ?? null;
    answer.on("data", (chunk: Buffer) => {
      const missing = MAX_KEPT_BYTES - this.#length;
      // A copy, because the chunk is part of a much larger buffer.
      if (missing > 0) this.#kept.push(Buffer.from(chunk.subarray(0, missing)));
      this.#length += chunk.length;
      if (this.#length > MAX_ANSWER_BYTES) onError(new ResponseTooLongError());
    });
    answer.once("end", onEnd);
    answer.on("error", onError);
  }

  #mayBeStale(error: unknown): boolean {
    const { code } = error as NodeJS.ErrnoException;
    const isClosed = code === "ECONNRESET" || code === "EPIPE";
    const hasBegun = this.statusCode !== null || this.#informational > 0;
    return isClosed && !hasBegun && !this.#isCut && this.#request?.reusedSocket === true;
  }
}
