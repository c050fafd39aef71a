import { setImmediate as nextTurn } from "node:timers/promises";
import { connect, type NatsConnection } from "nats";

export interface NatsSessionOptions {
  url: string;
  /** Says at the server who is connected. */
  name: string;
  signal: AbortSignal;
}

/** Milliseconds. A peer that is silent for twice the second is dead. */
const CONNECT_TIMEOUT_MS = 2_000;
const PING_INTERVAL_MS = 5_000;

/** A run has this long to end when it is told to. Milliseconds. */
const FINISH_TIMEOUT_MS = 1_000;

/**
 * Connects to NATS and runs something for as long as the connection lives; its signal aborts when the connection is
 * lost. There is no reconnecting below the caller's feet: what it knows of the server may be gone with it.
 *
 * @throws what the connection or the run throws; an error where the connection was lost
 */
export async function withNats(
  options: NatsSessionOptions,
  run: (connection: NatsConnection, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const connection = await connect({
    servers: options.url,
    name: options.name,
    reconnect: false,
    timeout: CONNECT_TIMEOUT_MS,
    pingInterval: PING_INTERVAL_MS,
    maxPingOut: 2,
    // A stack trace for each publication costs more than the publication.
    noAsyncTraces: true,
  });
  const life = new AbortController();
  let overtime: NodeJS.Timeout | undefined;
  const end = () => {
    life.abort();
    // A run that waits for an answer of the server gets an error instead.
    overtime ??= setTimeout(() => void connection.close(), FINISH_TIMEOUT_MS);
  };
  const lost = connection.closed().then((error) => {
    life.abort();
    return error;
  });
  options.signal.addEventListener("abort", end, { once: true });
  if (options.signal.aborted) end();
  try {
    await run(connection, life.signal);
    if (connection.isClosed()) throw (await lost) || new Error("the connection to NATS was closed");
  } finally {
    options.signal.removeEventListener("abort", end);
    clearTimeout(overtime);
    // A close takes the client's listeners off its socket. What the run just wrote fails by the next turn where the
    // server is gone, and without a listener that would end the process.
    await nextTurn();
    await connection.close();
  }
}
