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
const MAX_STORED_BODY_BYTES = 1_024;

/** Maximum length of a response body. If a body is longer, the attempt fails. */
const MAX_BODY_BYTES = 1024 ** 2;

/** Maximum number of informational responses (1xx) before the final response. */
const MAX_INFORMATIONAL_RESPONSES = 16;

/** One request, and the part of its response that has arrived. */
export class Exchange {
  /** Status of the final response. Null until the response begins. */
  statusCode: number | null = null;
  /** The response's Retry-After header, unchanged. */
  retryAfter: string | null = null;
  #storedChunks: Buffer[] = [];
  #bodyLength = 0;
  #informationalCount = 0;
  #isAborted = false;
  #request: ClientRequest | undefined;

  /**
   * Sends the request and reads its response.
   *
   * If the receiver closes a reused connection before the response begins, the request is sent once more on a new
   * connection. In this case, the receiver most likely closed the connection before the request arrived. If it did
   * process the first request, it can recognise the second request by the delivery id, as with every retry.
   *
   * @param open starts the request, on a new connection if `useNewConnection` is true
   * @param onConnected called each time the request is assigned to an open connection
   * @throws the connection's error, {@link ResponseTooLongError}, or {@link InvalidResponseError}
   */
  async run(open: (useNewConnection: boolean) => ClientRequest, body: string, onConnected: () => void): Promise<void> {
    // The attempt may have timed out while its destination was checked.
    if (this.#isAborted) throw new Error("The attempt was aborted.");
    try {
      await this.#send(open(false), body, onConnected);
    } catch (error) {
      if (!this.#isStaleConnection(error)) throw error;
      await this.#send(open(true), body, onConnected);
    }
  }

  /** Start of the response body, as text for Postgres: without NUL, and without a partial character at the end. */
  get responseBody(): string | null {
    if (this.statusCode === null) return null;
    return new TextDecoder().decode(Buffer.concat(this.#storedChunks), { stream: true }).replaceAll("\0", "");
  }

  /** True once a connection is assigned to the request. Its TLS handshake may still be in progress. */
  get hasSocket(): boolean {
    return Boolean(this.#request?.socket);
  }

  /** Aborts the exchange. If the request has not been sent yet, it is not sent at all. */
  abort(): void {
    this.#isAborted = true;
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
        this.#informationalCount += 1;
        if (this.#informationalCount <= MAX_INFORMATIONAL_RESPONSES) return;
        fail(new InvalidResponseError("The receiver sent too many informational responses."));
      });
      const refuseUpgrade = () => fail(new InvalidResponseError("The receiver switched protocols."));
      request.once("upgrade", refuseUpgrade);
      request.once("response", (response) => {
        // Node parses the whole received chunk, so this event can occur after the request was destroyed.
        if (request.destroyed) return;
        if (response.statusCode === 101) refuseUpgrade();
        else this.#read(response, resolve, fail);
      });
      request.end(body);
    });
  }

  #read(response: IncomingMessage, onEnd: () => void, onError: (error: Error) => void): void {
    this.statusCode = response.statusCode ?? null;
    this.retryAfter = response.headers["retry-after"] ?? null;
    response.on("data", (chunk: Buffer) => {
      const missingByteCount = MAX_STORED_BODY_BYTES - this.#bodyLength;
      // The copy lets Node free the much larger buffer behind the chunk.
      if (missingByteCount > 0) this.#storedChunks.push(Buffer.from(chunk.subarray(0, missingByteCount)));
      this.#bodyLength += chunk.length;
      if (this.#bodyLength > MAX_BODY_BYTES) onError(new ResponseTooLongError());
    });
    response.once("end", onEnd);
    response.on("error", onError);
  }

  #isStaleConnection(error: unknown): boolean {
    const { code } = error as NodeJS.ErrnoException;
    const isClosed = code === "ECONNRESET" || code === "EPIPE";
    const hasResponseBegun = this.statusCode !== null || this.#informationalCount > 0;
    return isClosed && !hasResponseBegun && !this.#isAborted && this.#request?.reusedSocket === true;
  }
}
