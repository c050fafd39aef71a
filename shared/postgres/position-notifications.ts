import { onAbort, waitUnlessAborted } from "../runtime/abort.ts";
import { pause } from "../runtime/backoff.ts";
import { settlesWithin } from "../runtime/timeout.ts";
import { createLongLivedClient, type LongLivedClientOptions } from "./client.ts";
import { positionStatement } from "./position-watch.ts";
import { READ_MODEL_SCHEMA } from "./read-model-schema.ts";

/** Time limit for closing the connection. Milliseconds. */
const CLOSE_TIMEOUT_MS = 1_000;

/** Pause before the connection is opened again. Milliseconds. */
const RETRY_INTERVAL_MS = 1_000;

/**
 * Receives the log positions of the read models from Postgres. The transaction that moves the position notifies a channel
 * with the schema's name. Uses a connection of its own, and opens it again if it is lost.
 *
 * @param onPosition called with the current position and each later one; with undefined while the connection is lost
 * @returns function that closes the connection
 */
export function listenForPositions(
  options: LongLivedClientOptions,
  onPosition: (position: bigint | undefined) => void,
): () => Promise<void> {
  const controller = new AbortController();
  const { signal } = controller;
  const listenPromise = (async () => {
    while (!signal.aborted) {
      await listenOnConnection(options, signal, onPosition).catch((error: unknown) => {
        options.logger.debug({ error }, "Notifications about the read models are not received. This will be retried.");
      });
      onPosition(undefined);
      await pause(RETRY_INTERVAL_MS, signal);
    }
  })();
  return () => {
    controller.abort();
    return listenPromise;
  };
}

/** Returns when the signal aborts. @throws if the connection fails */
async function listenOnConnection(
  options: LongLivedClientOptions,
  signal: AbortSignal,
  onPosition: (position: bigint) => void,
): Promise<void> {
  const connection = createLongLivedClient(options);
  const endPromise = new Promise<void>((resolve) => connection.once("end", resolve));
  const close = () => settlesWithin(connection.end(), CLOSE_TIMEOUT_MS).catch(() => false);
  const removeListener = onAbort(signal, close);
  try {
    await connection.connect();
    connection.on("notification", ({ payload = "" }) => {
      if (/^\d+$/.test(payload)) onPosition(BigInt(payload));
    });
    await connection.query(`LISTEN ${READ_MODEL_SCHEMA}`);
    const { rows } = await connection.query<{ position: string }>(positionStatement);
    if (rows[0]) onPosition(BigInt(rows[0].position));
    await waitUnlessAborted(endPromise, signal); // a server that does not respond never ends the connection
  } finally {
    removeListener();
    await close();
  }
}
