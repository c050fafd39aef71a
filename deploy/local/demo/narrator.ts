export interface DemoResponse {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: the demo prints any body and checks the fields that it uses
  body: any;
}

export interface RequestOptions {
  headers?: Record<string, string>;
  body?: unknown;
}

/** A check of the demo failed. The message states what the check expected. */
export class StepFailedError extends Error {
  override readonly name = "StepFailedError";
}

export interface Narrator {
  startStep(title: string): void;
  say(text: string): void;
  request(method: string, url: string, options?: RequestOptions): Promise<DemoResponse>;
  /** Prints the expectation if it is met. @throws {StepFailedError} if it is not met */
  check(expectation: string, isMet: boolean): void;
}

const HIDDEN_HEADER_PATTERN = /^(authorization|cookie)$/i;
const SECRET_FIELD_PATTERN = /("(?:access_token|client_secret|secret)": ")([^"]{6})[^"]*/g;
const MAX_PRINTED_CHARACTERS = 1_400;

export function createNarrator(write: (line: string) => void): Narrator {
  let stepCount = 0;
  return {
    startStep(title) {
      stepCount += 1;
      write(`\n${stepCount}. ${title}`);
    },
    say(text) {
      write(`   ${text}`);
    },
    async request(method, url, { headers = {}, body } = {}) {
      write(`   → ${method} ${url}`);
      for (const [name, value] of Object.entries(headers))
        write(`     ${name}: ${HIDDEN_HEADER_PATTERN.test(name) ? `${value.slice(0, 24)}…` : value}`);
      if (body !== undefined) write(formatBody(body));
      const startedAt = performance.now();
      const response = await fetch(url, {
        method,
        headers: { ...headers, ...(body !== undefined && { "content-type": "application/json" }) },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(30_000),
      });
      const text = await response.text();
      const responseBody = text === "" ? null : JSON.parse(text);
      write(`   ← ${response.status} in ${formatMilliseconds(performance.now() - startedAt)}`);
      write(formatBody(responseBody));
      return { status: response.status, headers: response.headers, body: responseBody };
    },
    check(expectation, isMet) {
      if (!isMet) throw new StepFailedError(expectation);
      write(`   ✔ ${expectation}`);
    },
  };
}

export function formatMilliseconds(durationMs: number): string {
  return durationMs < 10 ? `${durationMs.toFixed(1)} ms` : `${Math.round(durationMs)} ms`;
}

/** Shortens secrets and long bodies. */
function formatBody(body: unknown): string {
  const text = JSON.stringify(body, null, 2).replaceAll(SECRET_FIELD_PATTERN, "$1$2…");
  const shownText = text.length > MAX_PRINTED_CHARACTERS ? `${text.slice(0, MAX_PRINTED_CHARACTERS)}\n…` : text;
  return shownText.replaceAll(/^/gm, "     ");
}
