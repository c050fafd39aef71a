import { setImmediate as nextTurn } from "node:timers/promises";
import { connect, type NatsConnection } from "nats";

export interface NatsSessionOptions {
  url: string;
  /** Name of the connection at the server. */
  name: string;
  signal: AbortSignal;
}

/** Milliseconds. A server that misses two pings counts as dead. */
const CONNECT_TIMEOUT_MS = 2_000;
const PING_INTERVAL_MS = 5_000;

/** Time for a run to end after an abort. Milliseconds. */
const FINISH_TIMEOUT_MS = 1_000;

/**
 * Connects to NATS, and runs work until the connection is lost, which aborts the work's signal. It never reconnects by
 * itself, because the server may have lost state that the work depends on.
 *
 * @throws errors of the connection and of the run, and an error if the connection was lost
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
    // A stack trace for each message costs more than sending the message.
    noAsyncTraces: true,
  });
  const life = new AbortController();
  let overtime: NodeJS.Timeout | undefined;
  const end = () => {
    life.abort();
    // A run that waits for an answer from the server gets an error instead.
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
    if (connection.isClosed()) throw (await lost) || new Error("The connection to NATS was closed.");
  } finally {
    options.signal.removeEventListener("abort", end);
    clearTimeout(overtime);
    // Closing removes the client's listeners from its socket. If the server is gone, the last write fails in the next
    // turn of the event loop. Without a listener, that error would end the process.
    await nextTurn();
    await connection.close();
  }
}
