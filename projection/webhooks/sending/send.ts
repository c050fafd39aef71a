import type { AttemptError } from "../../../shared/webhooks/attempt-error.ts";
import {
  checkDestination,
  type DestinationOptions,
  UnsafeDestinationError,
} from "../../../shared/webhooks/destination.ts";
import type { Connections } from "./connections.ts";
import { Exchange, InvalidResponseError, ResponseTooLongError } from "./exchange.ts";
import type { AttemptResult } from "./retry-policy.ts";

/** Outcome of one attempt. */
export interface SendResult extends AttemptResult {
  /** From the name lookup to the end of the answer. */
  durationMs: number;
  /** Start of the answer's body; null without an answer. */
  answer: string | null;
}

export interface AttemptLimits {
  /** For looking up the name, connecting and the TLS handshake together. Milliseconds. */
  connectTimeoutMs: number;
  /** From the moment that the request has a connection to the end of the answer. Milliseconds. */
  timeoutMs: number;
}

export interface SendOptions extends DestinationOptions, AttemptLimits {
  connections: Connections;
  /** Applications share no connections. */
  applicationId: string;
  /** Interrupts the attempt; its outcome then stays unknown. */
  signal: AbortSignal;
}

/**
 * Makes one attempt: checks the destination, connects to the checked address and sends the request. Failures are
 * outcomes, not errors. An attempt that ends before its request is sent is never a `timeout`.
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
  const started = performance.now();
  const exchange = new Exchange();
  // The error if the time runs out now.
  let late: AttemptError = "lookup_failed";
  return new Promise((resolve) => {
    const end = (error: AttemptError | null) => {
      clearTimeout(timer);
      signal.removeEventListener("abort", leave);
      resolve(resultOf(exchange, error, started));
    };
    const expire = () => {
      end(late);
      exchange.cut();
    };
    let timer = setTimeout(expire, connectTimeoutMs);
    const leave = () => {
      clearTimeout(timer);
      exchange.cut();
      resolve(undefined);
    };
    const onConnected = () => {
      // A request that is sent again gets no extra time.
      if (late === "timeout") return;
      late = "timeout";
      clearTimeout(timer);
      timer = setTimeout(expire, timeoutMs);
    };
    if (signal.aborted) return leave();
    signal.addEventListener("abort", leave, { once: true });
    post(onConnected).then(
      () => end(null),
      (error) => end(errorOf(error, late)),
    );
  });

  async function post(onConnected: () => void): Promise<void> {
    const destination = await checkDestination(url, options);
    late = "connection_timeout";
    const open = (fresh: boolean) => connections.post(applicationId, destination, headers, fresh);
    await exchange.run(open, body, onConnected);
  }
}

function resultOf(
  { statusCode, retryAfter, answer }: Exchange,
  error: AttemptError | null,
  started: number,
): SendResult {
  return { statusCode, error, retryAfter, answer, durationMs: Math.round(performance.now() - started) };
}

const ERRORS: readonly [RegExp, AttemptError][] = [
  [/^ECONNREFUSED$/, "connection_refused"],
  [/^(ECONNRESET|EPIPE)$/, "connection_lost"],
  [/^HPE_/, "invalid_response"],
  [/^(ERR_TLS|ERR_SSL|CERT_|EPROTO$|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_)/, "tls_failed"],
];

/** @param late error code if the time runs out at this step */
function errorOf(error: unknown, late: AttemptError): AttemptError {
  if (error instanceof UnsafeDestinationError) return error.code;
  if (error instanceof ResponseTooLongError) return "answer_too_long";
  if (error instanceof InvalidResponseError) return "invalid_response";
  const code = String((error as NodeJS.ErrnoException).code);
  if (code === "ETIMEDOUT") return late;
  return ERRORS.find(([pattern]) => pattern.test(code))?.[1] ?? "connection_failed";
}
