import type { ClientRequest, IncomingMessage } from "node:http";
import type { AttemptError } from "../../../shared/webhooks/attempt-error.ts";
import {
  checkDestination,
  type DestinationOptions,
  UnsafeDestinationError,
} from "../../../shared/webhooks/destination.ts";
import type { Connections } from "./connections.ts";
import { EgressProxyError } from "./egress-proxy.ts";
import type { AttemptResult } from "./retry-policy.ts";

export interface SendResult extends AttemptResult {
  /** Time from the DNS lookup to the end of the response. */
  durationMs: number;
  /** Null if no response began. */
  responseBody: string | null;
}

export interface AttemptLimits {
  /** Time limit for DNS lookup, connection and TLS handshake together. */
  connectTimeoutMs: number;
  /** Time limit from the moment the connection is ready to the end of the response. */
  timeoutMs: number;
}

interface SendOptions extends DestinationOptions, AttemptLimits {
  connections: Connections;
  /** Selects the connection pool, because applications do not share connections. */
  applicationId: string;
  /** Interrupts the attempt. The outcome of an interrupted attempt stays unknown. */
  signal: AbortSignal;
}

/**
 * Makes one attempt: checks the destination, connects to the checked address and sends the request. Failures of the
 * receiver are returned, not thrown. The error code `timeout` means that the request was sent. Before that, an expired
 * time limit returns `lookup_failed` or `connection_timeout`.
 *
 * @returns undefined if the signal interrupted the attempt
 */
export function send(
  url: string,
  headers: Record<string, string>,
  body: string,
  options: SendOptions,
): Promise<SendResult | undefined> {
  const { applicationId, connections, signal, connectTimeoutMs, timeoutMs } = options;
  const startedAt = performance.now();
  const exchange = new Exchange();
  // Error code to report if the current time limit expires.
  let timeoutError: AttemptError = "lookup_failed";
  return new Promise((resolve) => {
    const finish = (error: AttemptError | null) => {
      clearTimeout(timer);
      signal.removeEventListener("abort", interrupt);
      const { statusCode, retryAfter, responseBody } = exchange;
      const durationMs = Math.round(performance.now() - startedAt);
      resolve({ statusCode, error, retryAfter, responseBody, durationMs });
    };
    const onTimeout = () => {
      const lacksConnection = timeoutError === "connection_timeout" && !exchange.hasSocket;
      finish(lacksConnection ? connections.judgeTimeout() : timeoutError);
      exchange.abort();
    };
    let timer = setTimeout(onTimeout, connectTimeoutMs);
    const interrupt = () => {
      clearTimeout(timer);
      exchange.abort();
      resolve(undefined);
    };
    const onConnected = () => {
      // If the request is sent once more on a new connection, the time limit does not start again.
      if (timeoutError === "timeout") return;
      timeoutError = "timeout";
      clearTimeout(timer);
      timer = setTimeout(onTimeout, timeoutMs);
    };
    if (signal.aborted) return interrupt();
    signal.addEventListener("abort", interrupt, { once: true });
    post(onConnected).then(
      () => finish(null),
      (error) => finish(toAttemptError(error, timeoutError)),
    );
  });

  async function post(onConnected: () => void): Promise<void> {
    const destination = await checkDestination(url, options);
    timeoutError = "connection_timeout";
    const open = (useNewConnection: boolean) => connections.post(applicationId, destination, headers, useNewConnection);
    await exchange.run(open, body, onConnected);
  }
}

const ERRORS_BY_CODE: readonly [RegExp, AttemptError][] = [
  [/^ECONNREFUSED$/, "connection_refused"],
  [/^(ECONNRESET|EPIPE)$/, "connection_lost"],
  [/^HPE_/, "invalid_response"],
  [/^(ERR_TLS|ERR_SSL|CERT_|EPROTO$|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_)/, "tls_failed"],
];

/** @param timeoutError code to return if the operating system reports a timeout */
function toAttemptError(error: unknown, timeoutError: AttemptError): AttemptError {
  if (error instanceof UnsafeDestinationError) return error.code;
  if (error instanceof EgressProxyError) return "egress_proxy_failed";
  if (error instanceof ResponseTooLongError) return "answer_too_long";
  if (error instanceof InvalidResponseError) return "invalid_response";
  const code = String((error as NodeJS.ErrnoException).code);
  if (code === "ETIMEDOUT") return timeoutError;
  return ERRORS_BY_CODE.find(([pattern]) => pattern.test(code))?.[1] ?? "connection_failed";
}

class ResponseTooLongError extends Error {
  override readonly name = "ResponseTooLongError";
}

/** The response is valid HTTP, but not a valid response to a POST request. */
class InvalidResponseError extends Error {
  override readonly name = "InvalidResponseError";
}

/** The remaining bytes are read and discarded. */
const MAX_STORED_BODY_BYTES = 1_024;

/** If a body is longer, the attempt fails. */
const MAX_BODY_BYTES = 1024 ** 2;

/** Maximum number of informational responses (1xx) before the final response. */
const MAX_INFORMATIONAL_RESPONSES = 16;

export class Exchange {
  /** Null until the response begins. */
  statusCode: number | null = null;
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
