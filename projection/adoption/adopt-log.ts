import type pg from "pg";
import { StartError } from "../../shared/runtime/run-service.ts";
import {
  BEFORE_FIRST,
  type Checkpoint,
  READ_MODEL_SCHEMA,
  readCheckpoint,
} from "../checkpoints/checkpoint.ts";
import { readRelayCheckpoint, setRelayCheckpoint } from "../checkpoints/relay-checkpoint.ts";
import { DifferentLogError, requireAnchored, requireSameLog } from "../checkpoints/same-log.ts";
import { type RebuildOptions, rebuild } from "../engine/rebuild.ts";
import { CommandRefusedError } from "../parking/parking-commands.ts";
import { deleteEventStream, eventStreamOf } from "../relay/event-stream.ts";
import { withNats } from "../relay/nats-session.ts";
import { lastEventBefore } from "./last-event-before.ts";
import { closeLost, findLost } from "./lost-deliveries.ts";

export interface AdoptOptions extends Omit<RebuildOptions, "adopt" | "includedStream" | "onSwapped"> {
  databaseUrl: string;
  natsUrl: string;
  /** The relay sends the events that the log stored since this time. Milliseconds since 1970. */
  notifyFrom: number | undefined;
  /** Milliseconds since 1970. */
  now: number;
}

/** Result of an adoption. */
export interface Adopted {
  /** Position from which the new read models are in use. */
  position: bigint;
  /** Position after which the relay continues. */
  relay: bigint;
  /** Number of pending deliveries that were cancelled because the log does not hold their events. */
  cancelled: number;
  /** Number of outbox entries that were deleted for the same reason. */
  dropped: number;
}

/**
 * Adopts the connected event log for this database, and rebuilds the read models from it. If the log holds the event of
 * the relay's checkpoint, the relay continues there. Otherwise it continues at the end of the log, or at the time that the
 * operator gives. It does not send earlier events. Messages to the dispatchers are deleted, because their events may not
 * be in the log; the relay sends what follows its checkpoint again. An interrupted adoption can be run again.
 *
 * @returns undefined if the signal aborted first
 * @throws {CommandRefusedError} if the database was built from this log
 * @throws {StartError} if NATS does not answer, or another rebuild or verify is running
 */
export async function adoptLog(options: AdoptOptions, signal: AbortSignal): Promise<Adopted | undefined> {
  const { client, pool, notifyFrom, now } = options;
  await requireDifferentLog(options);
  const keepsRelayCheckpoint = await belongsToLog(options, await readRelayCheckpoint(pool));
  const lost = await findLost(client, pool, signal);
  await deleteMessages(options, signal);
  const requested = notifyFrom === undefined ? undefined : await lastEventBefore(client, notifyFrom);
  let adopted: Adopted | undefined;
  const adopt = async (connection: pg.ClientBase) => {
    const readModels = await readCheckpoint(connection, READ_MODEL_SCHEMA);
    const current = await readRelayCheckpoint(connection);
    const relay = requested ?? (keepsRelayCheckpoint ? current : readModels);
    await setRelayCheckpoint(connection, relay);
    const counts = await closeLost(connection, lost, now);
    adopted = { position: readModels.position, relay: relay.position, ...counts };
  };
  let swapped = false;
  const onSwapped = () => {
    swapped = true;
  };
  await rebuild({ ...options, adopt, onSwapped }, signal);
  return swapped ? adopted : undefined;
}

/** @throws {CommandRefusedError} */
async function requireDifferentLog(options: AdoptOptions): Promise<void> {
  const { anchor, position } = await readCheckpoint(options.pool, READ_MODEL_SCHEMA);
  try {
    await requireSameLog(options);
  } catch (error) {
    if (error instanceof DifferentLogError) return;
    throw error;
  }
  // Without an anchor the logs cannot be compared, so the operator decides.
  if (!anchor && position !== BEFORE_FIRST) return;
  throw new CommandRefusedError(
    "This database was built from this event log, so there is nothing to adopt. Run rebuild without --adopt-log.",
  );
}

/** Returns true if the log is known to hold the event of a checkpoint. */
async function belongsToLog({ client }: AdoptOptions, checkpoint: Checkpoint): Promise<boolean> {
  try {
    await requireAnchored(client, "the relay", checkpoint);
    return checkpoint.anchor !== null;
  } catch (error) {
    if (error instanceof DifferentLogError) return false;
    throw error;
  }
}

/** @throws {StartError} */
async function deleteMessages({ natsUrl, databaseUrl }: AdoptOptions, signal: AbortSignal): Promise<void> {
  try {
    await withNats({ url: natsUrl, name: "clinic adoption", signal }, async (connection) => {
      await deleteEventStream(await connection.jetstreamManager(), eventStreamOf(databaseUrl));
    });
  } catch (error) {
    throw new StartError("NATS does not answer. Check NATS_URL.", { cause: error });
  }
}
