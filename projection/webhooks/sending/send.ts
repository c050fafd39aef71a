import type { AttemptError } from "../../../shared/webhooks/attempt-error.ts";
import {
  checkDestination,
  type DestinationOptions,
  UnsafeDestinationError,
} from "../../../shared/webhooks/destination.ts";
import type { Connections } from "./connections.ts";
import { EgressProxyError } from "./egress-proxy.ts";
import { Exchange, InvalidResponseError, ResponseTooLongError } from "./exchange.ts";
import type { AttemptResult } from "./retry-policy.ts";

/** Result of one attempt. */
export interface SendResult extends AttemptResult {
  /** Time from the DNS lookup to the end of the response. */
  durationMs: number;
  /** Start of the response body. Null if no response began. */
  responseBody: string | null;
}

export interface AttemptLimits {
  /** Time limit for DNS lookup, connection and TLS handshake together. Milliseconds. */
  connectTimeoutMs: number;
  /** Time limit from the moment the connection is ready to the end of the response. Milliseconds. */
  timeoutMs: number;
}

export interface SendOptions extends DestinationOptions, AttemptLimits {
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
