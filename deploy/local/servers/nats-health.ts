import { once } from "node:events";
import net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, NatsError } from "nats";

/** Intervals and limits of the JetStream health check. */
export interface HealthTimings {
  /** Interval in milliseconds between two health checks. */
  intervalMs: number;
  /** Interval in milliseconds between two test connections while a JetStream request is pending. */
  greetingIntervalMs: number;
  /** If a request is still pending after this number of successful test connections, JetStream is considered hung. */
  maxGreetings: number;
  /**
   * Time limit in milliseconds for the server's first line. A server that exceeds the limit is considered busy or down,
   * but not hung.
   */
  greetingTimeoutMs: number;
}

const DEFAULT_TIMINGS: HealthTimings = {
  intervalMs: 2_000,
  greetingIntervalMs: 1_000,
  maxGreetings: 10,
  greetingTimeoutMs: 10_000,
};

/** Subject of a JetStream API request. To answer the request, the server must acquire the lock of every stream. */
const INFO_SUBJECT = "$JS.API.INFO";

/** JetStream API error codes: JetStream is not enabled on the server, or not enabled for the account. */
const DISABLED_ERROR_CODES = new Set([10_039, 10_076]);

/**
 * Watches JetStream until it fails. If a write fails, for example on a full disk, some versions of nats-server disable
 * JetStream. Other versions stop answering JetStream requests until a restart. The server's own health check does not
 * detect this: version 2.9 still returns 200.
 *
 * @returns the reason to restart the server; undefined if the signal is aborted
 */
export async function watchJetStream(
  port: number,
  signal: AbortSignal,
  timings = DEFAULT_TIMINGS,
): Promise<string | undefined> {
  while (!signal.aborted) {
    // If the check fails, the server may be down or busy, but it is not considered hung.
    const reason = await checkJetStream(port, signal, timings).catch(() => undefined);
    if (reason !== undefined) return reason;
    await sleep(timings.intervalMs, undefined, { signal }).catch(() => undefined);
  }
  return undefined;
}

/** Returns the reason why JetStream does not work; undefined if it works. */
async function checkJetStream(port: number, signal: AbortSignal, timings: HealthTimings): Promise<string | undefined> {
  const responseController = new AbortController();
  const connection = await connect({
    servers: `127.0.0.1:${port}`,
    name: "supervisor",
    reconnect: false,
    timeout: timings.greetingTimeoutMs,
  });
  try {
    const problemPromise = connection
      .request(INFO_SUBJECT, undefined, { timeout: 2 ** 31 - 1 })
      .then((message) => findReportedProblem(message.json()), findRequestProblem);
    const hangPromise = detectHang(port, timings, AbortSignal.any([responseController.signal, signal]));
    return await Promise.race([problemPromise, hangPromise]);
  } finally {
    responseController.abort();
    await connection.close();
  }
}

function findReportedProblem(response: unknown): string | undefined {
  const { error } = response as { error?: { err_code?: number; description?: string } };
  if (!DISABLED_ERROR_CODES.has(error?.err_code ?? 0)) return undefined;
  return `JetStream is disabled (${error?.description})`;
}

function findRequestProblem(error: unknown): string | undefined {
  if (!(error instanceof NatsError) || error.code !== "503") return undefined;
  return "JetStream is disabled (its API has no responder)";
}

/**
 * Opens test connections while a request is pending. Resolves with a message after the maximum number of successful
 * test connections. On a busy machine, test connections are slow, too, so a slow server is not considered hung.
 *
 * @param signal aborted when the request is no longer pending
 */
async function detectHang(port: number, timings: HealthTimings, signal: AbortSignal): Promise<string | undefined> {
  const startedAt = performance.now();
  for (let greetingCount = 0; greetingCount < timings.maxGreetings; ) {
    await sleep(timings.greetingIntervalMs, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return undefined;
    if ((await readGreeting(port, timings.greetingTimeoutMs)) !== undefined) greetingCount += 1;
  }
  const elapsedSeconds = ((performance.now() - startedAt) / 1000).toFixed(0);
  return `JetStream has not answered for ${elapsedSeconds} s, although the server accepts connections`;
}

/**
 * Returns the first line that a NATS server sends, which begins with INFO. Returns undefined if no line arrives in
 * time.
 */
export async function readGreeting(
  port: number,
  timeoutMs = DEFAULT_TIMINGS.greetingTimeoutMs,
): Promise<string | undefined> {
  const socket = net.connect({ port, host: "127.0.0.1", timeout: timeoutMs });
  socket.once("timeout", () => socket.destroy(new Error("no greeting in time")));
  try {
    const [chunk] = (await once(socket, "data")) as [Buffer];
    return chunk.toString("utf8");
  } catch {
    return undefined;
  } finally {
    socket.destroy();
  }
}
