import { setImmediate as nextTurn } from "node:timers/promises";
import { connect, type NatsConnection } from "nats";
import { onAbort } from "../../shared/runtime/abort.ts";

export interface NatsSessionOptions {
  url: string;
  /** Name of the connection at the server. */
  name: string;
  signal: AbortSignal;
}

const CONNECT_TIMEOUT_MS = 2_000;

/** A server that does not respond to two pings counts as dead. Milliseconds. */
const PING_INTERVAL_MS = 5_000;

/** Time limit for the work to end after an abort. Milliseconds. */
const FINISH_TIMEOUT_MS = 1_000;

/**
 * Connects to NATS and runs work. If the connection is lost, the signal of the work aborts. The session never
 * reconnects, because the server may have lost state that the work depends on.
 *
 * @throws errors of the connection and of the work, and an error if the connection was lost
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
  const sessionController = new AbortController();
  let closeTimer: NodeJS.Timeout | undefined;
  const endSession = () => {
    sessionController.abort();
    // If the work still waits for a server response, closing the connection ends the wait.
    closeTimer ??= setTimeout(() => void connection.close(), FINISH_TIMEOUT_MS);
  };
  const closePromise = connection.closed().then((error) => {
    sessionController.abort();
    return error;
  });
  const removeListener = onAbort(options.signal, endSession);
  try {
    await run(connection, sessionController.signal);
    if (connection.isClosed()) throw (await closePromise) || new Error("The connection to NATS was closed.");
  } finally {
    removeListener();
    clearTimeout(closeTimer);
    // When the client closes the connection, it removes its listeners from the socket. If the server is gone, the
    // client's last write fails shortly afterwards. Without a listener, that error would end the process.
    await nextTurn();
    await connection.close();
  }
}
