import type { IncomingHttpHeaders } from "node:http";
import {
  checkDestination,
  type DestinationOptions,
  UnsafeDestination,
} from "../../shared/webhooks/destination.ts";
import { orAborted } from "../relay/together.ts";
import type { Connections } from "./connections.ts";
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

/** Of an answer's body this much is kept, and it may not be longer than the second. Bytes. */
const ANSWER_KEPT = 1_024;
const ANSWER_MOST = 1024 ** 2;

/**
 * Sends one request, once, to a destination that is judged again for it. What goes wrong on the way is an outcome.
 *
 * @returns undefined where the signal cut it short
 */
export async function send(
  url: string,
  headers: Record<string, string>,
  body: string,
  options: SendOptions,
): Promise<SendResult | undefined> {
  const { signal, timeoutMs } = options;
  const started = performance.now();
  const end = new AbortController();
  const cut = () => end.abort();
  const timer = setTimeout(cut, timeoutMs);
  signal.addEventListener("abort", cut, { once: true });
  if (signal.aborted) cut();
  const outcome: Omit<SendResult, "durationMs"> = {
    statusCode: null,
    error: null,
    retryAfter: null,
    answer: null,
  };
  try {
    // When time is up the exchange is left alone, whatever it waits for; it sees the same signal.
    await orAborted(post(url, headers, body, options, end.signal, outcome), end.signal);
    if (end.signal.aborted) throw new Error("time is up");
  } catch (error) {
    if (signal.aborted) return undefined;
    outcome.error = end.signal.aborted ? "timeout" : faultOf(error);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", cut);
  }
  return { ...outcome, durationMs: Math.round(performance.now() - started) };
}

async function post(
  url: string,
  headers: Record<string, string>,
  body: string,
  options: SendOptions,
  signal: AbortSignal,
  outcome: Omit<SendResult, "durationMs">,
): Promise<void> {
  const destination = await checkDestination(url, options);
  await options.connections.use(destination, async (pool) => {
    const path = destination.url.pathname + destination.url.search;
    const answer = await pool.request({ method: "POST", path, headers, body, signal });
    outcome.statusCode = answer.statusCode;
    outcome.retryAfter = single(answer.headers["retry-after"]);
    let length = 0;
    const kept: Uint8Array[] = [];
    outcome.answer = "";
    for await (const chunk of answer.body as AsyncIterable<Uint8Array>) {
      if (length < ANSWER_KEPT) {
        kept.push(chunk.subarray(0, ANSWER_KEPT - length));
        outcome.answer = toText(kept);
      }
      length += chunk.length;
      // Leaving the loop closes the connection: the rest is never read.
      if (length > ANSWER_MOST) throw new AnswerTooLong();
    }
  });
}

class AnswerTooLong extends Error {
  override readonly name = "AnswerTooLong";
}

/** Text for a Postgres column: no NUL, no half character at the end. */
function toText(chunks: readonly Uint8Array[]): string {
  return new TextDecoder().decode(Buffer.concat(chunks), { stream: true }).replaceAll("\0", "");
}

function single(value: IncomingHttpHeaders[string]): string | null {
  return (Array.isArray(value) ? value[0] : value) ?? null;
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
