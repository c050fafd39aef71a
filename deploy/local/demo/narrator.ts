/** A request of the demo and its answer. */
export interface Exchange {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: the demo shows answers, whatever is in them, and checks what it uses
  body: any;
}

/** What must be so for the demo to go on. */
export class StepFailed extends Error {
  override readonly name = "StepFailed";
}

/** Tells the journey as it happens. */
export interface Narrator {
  step(title: string): void;
  say(text: string): void;
  /** Makes a request, shows it with its answer and the time that it took. */
  request(
    method: string,
    url: string,
    options?: { headers?: Record<string, string>; body?: unknown },
  ): Promise<Exchange>;
  /** @throws {StepFailed} where it does not hold */
  check(what: string, holds: boolean): void;
}

const HIDDEN = /^(authorization|cookie)$/i;
const SECRETS = /("(?:access_token|client_secret|secret)": ")([^"]{6})[^"]*/g;
/** Answers are shown up to here. Characters. */
const SHOWN = 1_400;

/** @param write takes a line */
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
        write(`     ${name}: ${HIDDEN.test(name) ? `${value.slice(0, 24)}…` : value}`);
      }
      if (body !== undefined) write(indent(body));
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
      write(`   ← ${response.status} in ${milliseconds(performance.now() - started)}`);
      write(indent(answer.body));
      return answer;
    },
    check(what, holds) {
      if (!holds) throw new StepFailed(what);
      write(`   ✔ ${what}`);
    },
  };
}

/** A duration for people. */
export function milliseconds(duration: number): string {
  return duration < 10 ? `${duration.toFixed(1)} ms` : `${Math.round(duration)} ms`;
}

function indent(body: unknown): string {
  const text = JSON.stringify(body, null, 2).replaceAll(SECRETS, "$1$2…");
  const shown = text.length > SHOWN ? `${text.slice(0, SHOWN)}\n…` : text;
  return shown.replaceAll(/^/gm, "     ");
}
