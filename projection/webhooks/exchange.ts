import type { IncomingHttpHeaders } from "node:http";
import type { Dispatcher, Pool } from "undici";

/** An answer that is longer than any may be. */
export class AnswerTooLong extends Error {
  override readonly name = "AnswerTooLong";
}

/** Of an answer's body this much is kept, and it may not be longer than the second. Bytes. */
const ANSWER_KEPT = 1_024;
const ANSWER_MOST = 1024 ** 2;

/**
 * One request and what has come of its answer so far. It takes the answer from the connection as it comes, without a
 * stream for it: the stream costs more than the request.
 */
export class Exchange implements Dispatcher.DispatchHandler {
  /** Null where no answer came. */
  statusCode: number | null = null;
  /** The answer's Retry-After, as it came. */
  retryAfter: string | null = null;
  #kept: Uint8Array[] = [];
  #length = 0;
  #isCut = false;
  #controller: Dispatcher.DispatchController | undefined;
  #settle: { resolve(): void; reject(error: Error): void } | undefined;

  /** Makes the request, once; @throws what the connection does wrong, and {@link AnswerTooLong} */
  run(pool: Pool, request: Dispatcher.DispatchOptions): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#isCut) throw new Error("cut");
      this.#settle = { resolve, reject };
      pool.dispatch(request, this);
    });
  }

  /** The beginning of the answer's body, fit for a Postgres column: no NUL, no half character at the end. */
  get answer(): string | null {
    if (this.statusCode === null) return null;
    return new TextDecoder().decode(Buffer.concat(this.#kept), { stream: true }).replaceAll("\0", "");
  }

  /** Ends it where it stands; a request that has not been sent yet never will be. */
  cut(): void {
    this.#isCut = true;
    this.#controller?.abort(new Error("cut"));
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#isCut) controller.abort(new Error("cut"));
  }

  onResponseStart(_: Dispatcher.DispatchController, statusCode: number, headers: IncomingHttpHeaders): void {
    if (statusCode < 200) return;
    const { "retry-after": retryAfter } = headers;
    this.statusCode = statusCode;
    this.retryAfter = (Array.isArray(retryAfter) ? retryAfter[0] : retryAfter) ?? null;
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Uint8Array): void {
    // Copied: what came from the socket is much larger than what is kept.
    if (this.#length < ANSWER_KEPT) this.#kept.push(chunk.slice(0, ANSWER_KEPT - this.#length));
    this.#length += chunk.length;
    // The connection is closed: the rest is never read.
    if (this.#length > ANSWER_MOST) controller.abort(new AnswerTooLong());
  }

  onResponseEnd(): void {
    this.#settle?.resolve();
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    this.#settle?.reject(error);
  }
}
