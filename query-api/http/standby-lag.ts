import type pg from "pg";
import { createUnavailableError } from "../../shared/http/api-error.ts";
import { positionStatement, readPosition } from "../../shared/postgres/read-model-position.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import type { ReadRow } from "./read.ts";

/** The standby is too far behind the primary. It may lack revocations, and still grant access. */
export class StandbyBehindError extends Error {
  override readonly name = "StandbyBehindError";
}

/** Time for which reads continue if the standby does not receive the changes of the primary. */
const MAX_LAG_MS = 10_000;

const CHECK_INTERVAL_MS = 1_000;

const CHECK_TIMEOUT_MS = 2_000;

interface AwaitedPosition {
  position: bigint;
  /** Time at which the primary had this position, as a value of `performance.now()`. */
  since: number;
}

/**
 * Restricts reads from a standby of Postgres. If the standby does not reach a read-model position of the primary within
 * ten seconds, reads fail with 503 `data_source_unavailable`, caused by {@link StandbyBehindError}. They fail until the
 * standby reaches this position. While the primary is unavailable, reads continue.
 *
 * @param readRow reads from the standby
 */
export function limitStandbyLag(readRow: ReadRow, primaryPool: pg.Pool) {
  const controller = new AbortController();
  let awaitedPosition: AwaitedPosition | undefined;
  const checkPromise = (async () => {
    while (!controller.signal.aborted) {
      awaitedPosition = await findAwaitedPosition(readRow, primaryPool, awaitedPosition);
      await pause(CHECK_INTERVAL_MS, controller.signal);
    }
  })();
  const readUnlessBehind: ReadRow = async (...read) => {
    if (awaitedPosition && performance.now() - awaitedPosition.since > MAX_LAG_MS) {
      const cause = new StandbyBehindError("The standby does not receive the changes of the primary.");
      throw createUnavailableError("data_source_unavailable", cause);
    }
    return readRow(...read);
  };
  return {
    readRow: readUnlessBehind,
    async close() {
      controller.abort();
      await checkPromise;
    },
  };
}

async function findAwaitedPosition(
  readRow: ReadRow,
  primaryPool: pg.Pool,
  awaitedBefore: AwaitedPosition | undefined,
): Promise<AwaitedPosition | undefined> {
  const since = performance.now();
  // Without the primary, nobody knows the lag. The standby still serves reads.
  const position = await readPosition(primaryPool).catch(() => undefined);
  if (position === undefined) return undefined;
  // After an operator has adopted another log, the primary can have a lower position.
  const awaitedPosition = awaitedBefore && awaitedBefore.position <= position ? awaitedBefore : { position, since };
  try {
    const row = await readRow<{ position: bigint }>(positionStatement, [], performance.now() + CHECK_TIMEOUT_MS);
    return row.position >= awaitedPosition.position ? undefined : awaitedPosition;
  } catch {
    // The readiness check and the requests report a standby that is unavailable.
    return awaitedPosition;
  }
}
