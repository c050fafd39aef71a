import { setImmediate as nextTurn } from "node:timers/promises";
import type { NatsConnection } from "nats";
import { onAbort } from "../../shared/runtime/abort.ts";
import { connectNats } from "./connect-nats.ts";
import type { NatsSettings } from "./nats-settings.ts";

interface NatsSessionOptions {
  nats: NatsSettings;
  name: string;
  signal: AbortSignal;
}

/** Time limit for the work to end after an abort. */
const FINISH_TIMEOUT_MS = 1_000;

/**
 * Connects to a NATS server and runs work. If the connection is lost, the signal of the work aborts. The session never
 * reconnects, because the server may have lost state that the work depends on. The next session can use another server.
 *
 * @throws {NatsUnavailableError} if no server accepts the connection
 * @throws errors of the work, and an error if the connection was lost
 */
export async function withNats(
  options: NatsSessionOptions,
  run: (connection: NatsConnection, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const connection = await connectNats(options.nats, options.name, undefined, options.signal);
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
