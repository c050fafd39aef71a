/** The answer to a request of the demo. */
export interface DemoResponse {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: the demo shows any answer and checks the fields that it uses
  body: any;
}

/** A check of the demo failed. The message is the expectation. */
export class StepFailedError extends Error {
  override readonly name = "StepFailedError";
}

/** Prints the steps of the demo as they happen. */
export interface Narrator {
  step(title: string): void;
  say(text: string): void;
  /** Sends a request and prints it with its answer and duration. */
  request(
    method: string,
    url: string,
    options?: { headers?: Record<string, string>; body?: unknown },
  ): Promise<DemoResponse>;
  /** Prints an expectation that holds. @throws {StepFailedError} if it does not hold */
  check(what: string, holds: boolean): void;
}

const HIDDEN_HEADERS = /^(authorization|cookie)$/i;
const SECRET_FIELDS = /("(?:access_token|client_secret|secret)": ")([^"]{6})[^"]*/g;
/** Longest part of an answer that is printed. Characters. */
const MAX_PRINTED_CHARACTERS = 1_400;

/** @param write receives each line */
export function createNarrator(write: (line: string) => void): Narrator {
  let count = 0;
  return {
    step(title) {
      count += 1;
      write(`\n${count}. ${title}`);
    },
    say(text) {
      write(`   ${text}`);
    },
    async request(method, url, { headers = {}, body } = {}) {
      write(`   → ${method} ${url}`);
      for (const [name, value] of Object.entries(headers)) {
        write(`     ${name}: ${HIDDEN_HEADERS.test(name) ? `${value.slice(0, 24)}…` : value}`);
      }
      if (body !== undefined) write(formatBody(body));
      const started = performance.now();
      const response = await fetch(url, {
        method,
        headers: { ...headers, ...(body === undefined ? {} : { "content-type": "application/json" }) },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(30_000),
      });
      const text = await response.text();
      const answer = {
        status: response.status,
        headers: response.headers,
        body: text === "" ? null : JSON.parse(text),
      };
      write(`   ← ${response.status} in ${formatMilliseconds(performance.now() - started)}`);
      write(formatBody(answer.body));
      return answer;
    },
    check(what, holds) {
      if (!holds) throw new StepFailedError(what);
      write(`   ✔ ${what}`);
    },
  };
}

/** Formats a duration. */
export function formatMilliseconds(duration: number): string {
  return duration < 10 ? `${duration.toFixed(1)} ms` : `${Math.round(duration)} ms`;
}

function formatBody(body: unknown): string {
  const text = JSON.stringify(body, null, 2).replaceAll(SECRET_FIELDS, "$1$2…");
  const shown = text.length > MAX_PRINTED_CHARACTERS ? `${text.slice(0, MAX_PRINTED_CHARACTERS)}\n…` : text;
  return shown.replaceAll(/^/gm, "     ");
}
