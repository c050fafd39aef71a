import type { Style } from "../../../shared/command-line/style.ts";

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
  /** Prints a text that only a verbose demo shows. */
  detail(text: string): void;
  request(method: string, url: string, options?: RequestOptions): Promise<DemoResponse>;
  /** Prints the expectation if it is met. @throws {StepFailedError} if it is not met */
  check(expectation: string, isMet: boolean): void;
}

const HIDDEN_HEADER_PATTERN = /^(authorization|cookie)$/i;
const SECRET_FIELD_PATTERN = /("(?:access_token|client_secret|secret)": ")([^"]{6})[^"]*/g;
const MAX_PRINTED_CHARACTERS = 1_400;

/** Number of steps of the demo. */
const STEP_COUNT = 10;

/**
 * Creates the narrator of the demo.
 *
 * @param isVerbose if true, prints the headers and bodies of all requests
 */
export function createNarrator(write: (line: string) => void, style: Style, isVerbose: boolean): Narrator {
  let stepCount = 0;
  const writeDetail = (text: string) => {
    if (isVerbose) write(style.dim(text));
  };
  return {
    startStep(title) {
      stepCount += 1;
      write(`\n${style.bold(`Step ${stepCount} of ${STEP_COUNT}: ${title}`)}`);
    },
    say(text) {
      write(`  ${text}`);
    },
    detail(text) {
      writeDetail(`  ${text}`);
    },
    async request(method, url, { headers = {}, body } = {}) {
      for (const [name, value] of Object.entries(headers))
        writeDetail(`    ${name}: ${HIDDEN_HEADER_PATTERN.test(name) ? `${value.slice(0, 24)}…` : value}`);
      if (body !== undefined) writeDetail(formatBody(body));
      const startedAt = performance.now();
      const response = await fetch(url, {
        method,
        headers: { ...headers, ...(body !== undefined && { "content-type": "application/json" }) },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(30_000),
      });
      const text = await response.text();
      const responseBody = text === "" ? null : JSON.parse(text);
      const duration = formatMilliseconds(performance.now() - startedAt);
      write(`  ${method} ${new URL(url).pathname} ${style.dim("→")} ${response.status} in ${duration}`);
      for (const [headerName, value] of response.headers) writeDetail(`    ${headerName}: ${value}`);
      writeDetail(formatBody(responseBody));
      return { status: response.status, headers: response.headers, body: responseBody };
    },
    check(expectation, isMet) {
      if (!isMet) throw new StepFailedError(expectation);
      write(`  ${style.green("✔")} ${expectation}`);
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
  return shownText.replaceAll(/^/gm, "    ");
}
