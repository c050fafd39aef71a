import { once } from "node:events";
import net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, NatsError } from "nats";

/** Intervals of the JetStream health check, in milliseconds. */
export interface HealthCheckTimes {
  /** Interval between checks. */
  intervalMs: number;
  /** Interval between test connections while a request is unanswered. */
  greetingIntervalMs: number;
  /** Number of successful test connections after which an unanswered request means that JetStream hangs. */
  greetings: number;
}

const DEFAULT_TIMES: HealthCheckTimes = { intervalMs: 2_000, greetingIntervalMs: 1_000, greetings: 10 };

/** Time limit for the greeting. A server that does not greet is busy or down, which does not show a hang. Milliseconds. */
const GREETING_TIMEOUT_MS = 10_000;

/** A request of the JetStream API that needs the lock of each stream. */
const INFO_SUBJECT = "$JS.API.INFO";

/** Error codes of answers: JetStream not enabled, JetStream not enabled for the account. */
const DISABLED_ERROR_CODES = new Set([10_039, 10_076]);

/**
 * Watches whether JetStream works. After a failed write, for instance on a full disk, some versions of nats-server disable
 * JetStream and others stop answering its API, until a restart. The server's own health check does not detect this:
 * version 2.9 keeps answering 200.
 *
 * @returns the reason to restart the server; undefined if the signal aborts
 */
export async function watchJetStream(
  port: number,
  signal: AbortSignal,
  times = DEFAULT_TIMES,
): Promise<string | undefined> {
  while (!signal.aborted) {
    const reason = await checkJetStream(port, signal, times).catch(() => undefined); // the server is down or busy
    if (reason !== undefined) return reason;
    await sleep(times.intervalMs, undefined, { signal }).catch(() => undefined);
  }
  return undefined;
}

async function checkJetStream(
  port: number,
  signal: AbortSignal,
  times: HealthCheckTimes,
): Promise<string | undefined> {
  const asked = new AbortController();
  const over = AbortSignal.any([asked.signal, signal]);
  const connection = await connect({
    servers: `127.0.0.1:${port}`,
    name: "supervisor",
    reconnect: false,
    timeout: GREETING_TIMEOUT_MS,
  });
  try {
    const answer = connection
      .request(INFO_SUBJECT, undefined, { timeout: 2 ** 31 - 1 })
      .then((message) => findReportedProblem(message.json()), findRequestProblem);
    return await Promise.race([answer, detectHang(port, times, over)]);
  } finally {
    asked.abort();
    await connection.close();
  }
}

function findReportedProblem(answer: unknown): string | undefined {
  const { error } = answer as { error?: { err_code?: number; description?: string } };
  return DISABLED_ERROR_CODES.has(error?.err_code ?? 0)
    ? `JetStream is disabled (${error?.description})`
    : undefined;
}

function findRequestProblem(error: unknown): string | undefined {
  const { code } = error as NatsError;
  return error instanceof NatsError && code === "503"
    ? "JetStream is disabled (its API has no responder)"
    : undefined;
}

/** Resolves after enough successful test connections. On a busy machine this takes longer, so a slow server is not killed. */
async function detectHang(
  port: number,
  times: HealthCheckTimes,
  signal: AbortSignal,
): Promise<string | undefined> {
  const since = performance.now();
  for (let greetings = 0; greetings < times.greetings; ) {
    await sleep(times.greetingIntervalMs, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return undefined;
    if ((await readGreeting(port)) !== undefined) greetings += 1;
  }
  const seconds = ((performance.now() - since) / 1000).toFixed(0);
  return `JetStream has not answered for ${seconds} s, although the server accepts connections`;
}

/** Returns the first line of a NATS server, which begins with INFO; undefined if none arrives. */
export async function readGreeting(port: number): Promise<string | undefined> {
  const socket = net.connect({ port, host: "127.0.0.1", timeout: GREETING_TIMEOUT_MS });
  socket.once("timeout", () => socket.destroy(new Error("silent")));
  try {
    const [chunk] = (await once(socket, "data")) as [Buffer];
    return chunk.toString("utf8");
  } catch {
    return undefined;
  } finally {
    socket.destroy();
  }
}
