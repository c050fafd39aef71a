import type { ClientRequest, IncomingMessage } from "node:http";

/** The body of the response is longer than the limit. */
export class ResponseTooLongError extends Error {
  override readonly name = "ResponseTooLongError";
}

/** The response is valid HTTP, but not a valid response to a POST request. */
export class InvalidResponseError extends Error {
  override readonly name = "InvalidResponseError";
}

/** Number of bytes of a response body that are stored. The remaining bytes are read and discarded. */
const MAX_KEPT_BYTES = 1_024;

/** Maximum length of a response body. A longer body fails the attempt. */
const MAX_ANSWER_BYTES = 1024 ** 2;

/** Maximum number of informational responses (1xx) before the final response. */
const MAX_INFORMATIONAL_ANSWERS = 16;

/** One request, and the part of its response that has arrived. */
export class Exchange {
  /** Status of the final response. Null until the response begins. */
  statusCode: number | null = null;
  /** The response's Retry-After header, unchanged. */
  retryAfter: string | null = null;
  #kept: Buffer[] = [];
  #length = 0;
  #informational = 0;
  #isCut = false;
  #request: ClientRequest | undefined;

  /**
   * Sends the request and reads its response.
   *
   * If the receiver closes a reused connection before the response begins, the request is sent once more on a new
   * connection, because the receiver most likely closed the connection before the request arrived. If the receiver did
   * process the request, it recognises the delivery's id, as with every retry.
   *
   * @param open starts the request, on a new connection if `fresh` is true
   * @param onConnected called each time the request is assigned to an open connection
   * @throws the connection's error, {@link ResponseTooLongError}, or {@link InvalidResponseError}
   */
  async run(open: (fresh: boolean) => ClientRequest, body: string, onConnected: () => void): Promise<void> {
    // The attempt may have timed out while its destination was checked.
    if (this.#isCut) throw new Error("The attempt was aborted.");
    try {
      await this.#send(open(false), body, onConnected);
    } catch (error) {
      if (!this.#mayBeStale(error)) throw error;
      await this.#send(open(true), body, onConnected);
    }
  }

  /** Start of the response body, as text for Postgres: without NUL, and without a partial character at the end. */
  get answer(): string | null {
    if (this.statusCode === null) return null;
    return new TextDecoder().decode(Buffer.concat(this.#kept), { stream: true }).replaceAll("\0", "");
  }

  /** Aborts the exchange. A request that is not yet sent is never sent. */
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
        fail(new InvalidResponseError("The receiver sent too many informational responses."));
      });
      const refuse = () => fail(new InvalidResponseError("The receiver switched protocols."));
      request.once("upgrade", refuse);
      request.once("response", (answer) => {
        // Node parses a received chunk to its end, even if the request is destroyed meanwhile.
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
      // The copy lets Node free the much larger buffer behind the chunk.
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
