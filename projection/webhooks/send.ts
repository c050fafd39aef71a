import {
  checkDestination,
  type DestinationOptions,
  UnsafeDestination,
} from "../../shared/webhooks/destination.ts";
import type { Connections } from "./connections.ts";
import { AnswerTooLong, Exchange } from "./exchange.ts";
import type { AttemptOutcome } from "./retry-policy.ts";

/** What came of one attempt. */
export interface SendResult extends AttemptOutcome {
  durationMs: number;
  /** The beginning of the answer's body; null where no answer came. */
  answer: string | null;
}

export interface SendOptions extends DestinationOptions {
  connections: Connections;
  /** For the whole of it: look-up, connection, headers, body. Milliseconds. */
  timeoutMs: number;
  /** Cuts the attempt short; its outcome then stays unknown. */
  signal: AbortSignal;
}

/**
 * Sends one request, once, to a destination that is judged again for it. What goes wrong on the way is an outcome.
 *
 * @returns undefined where the signal cut it short
 */
export function send(
  url: string,
  headers: Record<string, string>,
  body: string,
  options: SendOptions,
): Promise<SendResult | undefined> {
  const { connections, signal, timeoutMs } = options;
  const started = performance.now();
  const exchange = new Exchange();
  return new Promise((resolve) => {
    const end = (error: string | null) => {
      clearTimeout(timer);
      signal.removeEventListener("abort", leave);
      const { statusCode, retryAfter, answer } = exchange;
      const durationMs = Math.round(performance.now() - started);
      resolve({ statusCode, error, retryAfter, answer, durationMs });
    };
    // What is over before its end is left alone, whatever it waits for; it is cut as soon as it can be.
    const timer = setTimeout(() => {
      end("timeout");
      exchange.cut();
    }, timeoutMs);
    const leave = () => {
      clearTimeout(timer);
      exchange.cut();
      resolve(undefined);
    };
    if (signal.aborted) return leave();
    signal.addEventListener("abort", leave, { once: true });
    post().then(
      () => end(null),
      (error) => end(faultOf(error)),
    );
  });

  async function post(): Promise<void> {
    const destination = await checkDestination(url, options);
    const path = destination.url.pathname + destination.url.search;
    await connections.use(destination, (pool) => exchange.run(pool, { method: "POST", path, headers, body }));
  }
}

const FAULTS: readonly [RegExp, string][] = [
  [/^ECONNREFUSED$/, "connection_refused"],
  [/^(ECONNRESET|EPIPE|UND_ERR_SOCKET|UND_ERR_RES_CONTENT_LENGTH_MISMATCH)$/, "connection_lost"],
  [/^(ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT)$/, "timeout"],
  [/^(HTTPParserError|HPE_|UND_ERR_HEADERS_OVERFLOW|UND_ERR_RESPONSE)/, "invalid_response"],
  [/^(ERR_TLS|ERR_SSL|CERT_|EPROTO$|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_)/, "tls_failed"],
];

/** A stable code for what a connection can do wrong. */
function faultOf(error: unknown): string {
  if (error instanceof UnsafeDestination) return error.code;
  if (error instanceof AnswerTooLong) return "answer_too_long";
  // The parser's error has a code only sometimes, but always a name.
  const { code, name } = error as { code?: unknown; name?: unknown };
  const fault = FAULTS.find(([pattern]) => pattern.test(String(code)) || pattern.test(String(name)));
  return fault?.[1] ?? "connection_failed";
}
