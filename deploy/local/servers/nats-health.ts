import { once } from "node:events";
import net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, NatsError } from "nats";

/** Times of the watch over JetStream. Milliseconds. */
export interface NatsWatchTimes {
  /** JetStream is asked this often. */
  intervalMs: number;
  /** Greetings of the server, this far apart… */
  greetingIntervalMs: number;
  /** …and so many of them, while JetStream leaves one request unanswered, show that it hangs. */
  greetings: number;
}

const TIMES: NatsWatchTimes = { intervalMs: 2_000, greetingIntervalMs: 1_000, greetings: 10 };

/** A server that is given this long and does not greet is busy or gone: no proof that JetStream hangs. Milliseconds. */
const GREETING_TIMEOUT_MS = 10_000;

/** Any request of the JetStream API that needs the lock of each stream. */
const API_REQUEST = "$JS.API.INFO";

/** JetStream's «not enabled» and «not enabled for account», as status and as code of an answer. */
const DISABLED = new Set([10_039, 10_076]);

/**
 * Watches whether JetStream works. After a failed write, for instance on a full disk, a nats-server either disables
 * JetStream or never answers its API again, depending on the version, and stays so until it is started again. Its own
 * health check does not tell: 2.9 answers 200 all the while.
 *
 * @returns the reason to start the server again; undefined once the signal aborts
 */
export async function watchJetStream(
  port: number,
  signal: AbortSignal,
  times = TIMES,
): Promise<string | undefined> {
  while (!signal.aborted) {
    const reason = await examine(port, signal, times).catch(() => undefined); // it is down or busy
    if (reason !== undefined) return reason;
    await sleep(times.intervalMs, undefined, { signal }).catch(() => undefined);
  }
  return undefined;
}

async function examine(
  port: number,
  signal: AbortSignal,
  times: NatsWatchTimes,
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
      .request(API_REQUEST, undefined, { timeout: 2 ** 31 - 1 })
      .then((message) => problemOf(message.json()), problemOfError);
    return await Promise.race([answer, hangs(port, times, over)]);
  } finally {
    asked.abort();
    await connection.close();
  }
}

function problemOf(answer: unknown): string | undefined {
  const { error } = answer as { error?: { err_code?: number; description?: string } };
  return DISABLED.has(error?.err_code ?? 0) ? `JetStream is disabled (${error?.description})` : undefined;
}

function problemOfError(error: unknown): string | undefined {
  const { code } = error as NatsError;
  return error instanceof NatsError && code === "503"
    ? "JetStream is disabled (nobody answers its API)"
    : undefined;
}

/** Resolves when the server has greeted so many newcomers in a row; a busy machine makes that take longer. */
async function hangs(port: number, times: NatsWatchTimes, signal: AbortSignal): Promise<string | undefined> {
  const since = performance.now();
  for (let greetings = 0; greetings < times.greetings; ) {
    await sleep(times.greetingIntervalMs, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return undefined;
    if ((await greeting(port)) !== undefined) greetings += 1;
  }
  const seconds = ((performance.now() - since) / 1000).toFixed(0);
  return `JetStream has not answered for ${seconds} s, while the server takes connections`;
}

/** What a NATS server says first: a line that begins with INFO. Undefined if it says nothing. */
export async function greeting(port: number): Promise<string | undefined> {
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
