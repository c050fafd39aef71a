import type { ClientRequest, IncomingMessage } from "node:http";
import { finished } from "node:stream";
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
  /** Null if a response began. */
  error: AttemptError | null;
  /** Time from the DNS lookup to the end of the response. */
  durationMs: number;
  /** Null if no response began. */
  responseBody: string | null;
}

export interface AttemptLimits {
  /** Time limit for DNS lookup, connection and TLS handshake together. */
  connectTimeoutMs: number;
  /** Time limit from the moment the connection is ready to the end of the response's headers. */
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
 * Makes one attempt: checks the destination, connects to a checked address and sends the request. Returns failures of
 * the receiver instead of throwing them. The error code `timeout` means that the connection was ready, so the receiver
 * may have the request. A time limit that expires earlier has another code, such as `connection_timeout`. Once the
 * response headers have arrived, the attempt has no error, even if the body is incomplete.
 *
 * @returns undefined if the signal interrupted the attempt before a response began
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
    /** @param error error code if no response began; null if the attempt was interrupted */
    const finish = (error: AttemptError | null) => {
      stopTimer();
      signal.removeEventListener("abort", interrupt);
      const { statusCode, retryAfter, responseBody } = exchange;
      if (statusCode === null && error === null) return resolve(undefined);
      const durationMs = Math.round(performance.now() - startedAt);
      resolve({ statusCode, error: statusCode === null ? error : null, retryAfter, responseBody, durationMs });
    };
    const judgeTimeout = () => {
      const lacksConnection = timeoutError === "connection_timeout" && !exchange.hasSocket;
      return lacksConnection ? connections.judgeTimeout() : timeoutError;
    };
    const onTimeout = () => {
      finish(judgeTimeout());
      exchange.abort();
    };
    let stopTimer = startTimer(connectTimeoutMs, onTimeout);
    const interrupt = () => {
      finish(null);
      exchange.abort();
    };
    const onConnected = () => {
      // If the request is sent once more on a new connection, the time limit does not start again.
      if (timeoutError === "timeout") return;
      timeoutError = "timeout";
      stopTimer();
      stopTimer = startTimer(timeoutMs, onTimeout);
    };
    if (signal.aborted) return interrupt();
    signal.addEventListener("abort", interrupt, { once: true });
    post(onConnected).then(
      () => finish(null),
      (error) => finish(toAttemptError(error, judgeTimeout)),
    );
  });

  async function post(onConnected: () => void): Promise<void> {
    const destination = await checkDestination(url, options);
    timeoutError = "connection_timeout";
    const open = (useNewConnection: boolean) => connections.post(applicationId, destination, headers, useNewConnection);
    await exchange.run(open, body, onConnected);
  }
}

/**
 * Starts a timer that expires only after the network events that are already waiting have been handled. Otherwise, a
 * pause of this process would end attempts whose responses have arrived.
 *
 * @returns a function that stops the timer
 */
function startTimer(ms: number, onExpired: () => void): () => void {
  let immediate: NodeJS.Immediate | undefined;
  const timer = setTimeout(() => {
    immediate = setImmediate(onExpired);
  }, ms);
  return () => {
    clearTimeout(timer);
    clearImmediate(immediate);
  };
}

const ERRORS_BY_CODE: readonly [RegExp, AttemptError][] = [
  [/^ECONNREFUSED$/, "connection_refused"],
  [/^(ECONNRESET|EPIPE)$/, "connection_lost"],
  [/^HPE_/, "invalid_response"],
  [/^(ERR_TLS|ERR_SSL|CERT_|EPROTO$|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_)/, "tls_failed"],
];

/** @param judgeTimeout returns the code if the operating system or the egress proxy reports a timeout */
function toAttemptError(error: unknown, judgeTimeout: () => AttemptError): AttemptError {
  if (error instanceof UnsafeDestinationError) return error.code;
  if (error instanceof EgressProxyError) return "egress_proxy_failed";
  if (error instanceof InvalidResponseError) return "invalid_response";
  const code = String((error as NodeJS.ErrnoException).code);
  if (code === "ETIMEDOUT") return judgeTimeout();
  return ERRORS_BY_CODE.find(([pattern]) => pattern.test(code))?.[1] ?? "connection_failed";
}

/** The response is valid HTTP, but not a valid response to a POST request. */
class InvalidResponseError extends Error {
  override readonly name = "InvalidResponseError";
}

/** Maximum number of stored bytes of a body. The remaining bytes are read and discarded. */
const MAX_STORED_BODY_BYTES = 1_024;

/**
 * Limits for the size of a body, and for the time from the end of the headers to the end of the body. If a limit is
 * exceeded, the connection is closed without reading the rest.
 */
const MAX_BODY_BYTES = 1024 ** 2;
const MAX_BODY_MS = 500;

/** Statuses of responses without a body. */
const BODILESS_STATUSES = new Set([204, 304]);

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
   * Sends the request and reads its response. Once the response has begun, errors of its body are ignored.
   *
   * If a reused connection breaks or returns invalid bytes before the response begins, sends the request once more on a
   * new connection. Most likely, the receiver closed the connection before the request arrived, or the bytes belong to
   * a previous response. If the receiver gets both requests, it can recognize the second by its delivery id.
   *
   * @param open starts the request, on a new connection if `useNewConnection` is true
   * @param onConnected called each time the request is assigned to an open connection
   * @throws the connection's error, or {@link InvalidResponseError}
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
      request.on("error", (error) => {
        if (this.statusCode === null) fail(error);
      });
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
        else this.#read(request, response, resolve);
      });
      request.end(body);
    });
  }

  #read(request: ClientRequest, response: IncomingMessage, onEnd: () => void): void {
    const { statusCode = 0, headers } = response;
    this.statusCode = statusCode;
    this.retryAfter = headers["retry-after"] ?? null;
    const announcesBody = headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
    // The body would be read as the start of the next response.
    if (announcesBody && BODILESS_STATUSES.has(statusCode)) request.shouldKeepAlive = false;
    const timer = setTimeout(() => response.destroy(), MAX_BODY_MS);
    response.on("data", (chunk: Buffer) => {
      const missingByteCount = MAX_STORED_BODY_BYTES - this.#bodyLength;
      // The copy lets Node free the much larger buffer behind the chunk.
      if (missingByteCount > 0) this.#storedChunks.push(Buffer.from(chunk.subarray(0, missingByteCount)));
      this.#bodyLength += chunk.length;
      if (this.#bodyLength > MAX_BODY_BYTES) response.destroy();
    });
    finished(response, () => {
      clearTimeout(timer);
      onEnd();
    });
  }

  #isStaleConnection(error: unknown): boolean {
    const isUnusable = /^(ECONNRESET|EPIPE|HPE_)/.test(String((error as NodeJS.ErrnoException).code));
    const hasResponseBegun = this.#informationalCount > 0;
    return isUnusable && !hasResponseBegun && !this.#isAborted && this.#request?.reusedSocket === true;
  }
}
