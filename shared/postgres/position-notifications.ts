import { onAbort } from "../runtime/abort.ts";
import { pause } from "../runtime/backoff.ts";
import { settlesWithin } from "../runtime/timeout.ts";
import { createLongLivedClient, type LongLivedClientOptions } from "./client.ts";
import { positionStatement } from "./position-watch.ts";
import { READ_MODEL_SCHEMA } from "./read-model-schema.ts";

/** Time limit for closing the connection. Milliseconds. */
const CLOSE_TIMEOUT_MS = 1_000;

/** Interval at which the connection is checked or opened again. Milliseconds. */
const CHECK_INTERVAL_MS = 1_000;

/**
 * Receives the log positions of the read models from Postgres. The transaction that moves the position notifies a channel
 * with the schema's name. Uses a separate connection, and opens it again if it is lost.
 *
 * @param onPosition called with the current position and each change of it; with undefined while there is no connection
 * @returns function that closes the connection
 */
export function listenForPositions(
  options: LongLivedClientOptions,
  onPosition: (position: bigint | undefined) => void,
): () => Promise<void> {
  const controller = new AbortController();
  const { signal } = controller;
  let isLossLogged = false;
  const report = (position: bigint) => {
    isLossLogged = false;
    onPosition(position);
  };
  const listenPromise = (async () => {
    while (!signal.aborted) {
      await listenOnConnection(options, signal, report).catch((error: unknown) => {
        if (!signal.aborted && !isLossLogged)
          options.logger.warn({ error }, "Notifications about the read models are not received. This will be retried.");
        isLossLogged = true;
      });
      onPosition(undefined);
      await pause(CHECK_INTERVAL_MS, signal);
    }
  })();
  return () => {
    controller.abort();
    return listenPromise;
  };
}

/** Listens until the signal aborts. @throws if the connection is lost or unsuitable */
async function listenOnConnection(
  options: LongLivedClientOptions,
  signal: AbortSignal,
  onPosition: (position: bigint) => void,
): Promise<void> {
  const connection = createLongLivedClient(options);
  let lastPosition: bigint | undefined;
  let notificationCount = 0;
  const report = (position: bigint) => {
    if (position !== lastPosition) onPosition(position);
    lastPosition = position;
  };
  connection.on("notification", ({ payload = "" }) => {
    if (!/^\d+$/.test(payload)) return;
    notificationCount += 1;
    report(BigInt(payload));
  });
  const close = () => settlesWithin(connection.end(), CLOSE_TIMEOUT_MS).catch(() => false);
  const removeListener = onAbort(signal, close);
  try {
    await connection.connect();
    await connection.query(`LISTEN ${READ_MODEL_SCHEMA}`);
    while (!signal.aborted) {
      await connection.requireServerKind();
      const countBefore = notificationCount;
      const { rows } = await connection.query<{ position: string }>(positionStatement);
      // A notification that arrived before the result may be newer than the result.
      if (rows[0] && notificationCount === countBefore) report(BigInt(rows[0].position));
      await pause(CHECK_INTERVAL_MS, signal);
    }
  } finally {
    removeListener();
    await close();
  }
}
