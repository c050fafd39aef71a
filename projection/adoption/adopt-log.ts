import type pg from "pg";
import { StartError } from "../../shared/runtime/run-service.ts";
import {
  BEFORE_FIRST,
  type Checkpoint,
  READ_MODEL_SCHEMA,
  readCheckpoint,
} from "../checkpoints/checkpoint.ts";
import { readRelayCheckpoint, setRelayCheckpoint } from "../checkpoints/relay-checkpoint.ts";
import { DifferentLog, requireAnchored, requireSameLog } from "../checkpoints/same-log.ts";
import { type RebuildOptions, rebuild } from "../engine/rebuild.ts";
import { CommandRefused } from "../parking/parking-commands.ts";
import { deleteEventStream, eventStreamOf } from "../relay/event-stream.ts";
import { withNats } from "../relay/nats-session.ts";
import { lastEventBefore } from "./last-event-before.ts";
import { closeLost, findLost } from "./lost-deliveries.ts";

export interface AdoptOptions extends Omit<RebuildOptions, "adopt" | "takeBack" | "onSwapped"> {
  databaseUrl: string;
  natsUrl: string;
  /** The relay tells partners the events that were stored since then. Milliseconds since 1970. */
  tellSince: number | undefined;
  /** Milliseconds since 1970. */
  now: number;
}

/** What an adoption came to. */
export interface Adopted {
  /** The new read models serve from here. */
  position: bigint;
  /** The relay tells what comes after. */
  relay: bigint;
  /** Pending deliveries that were cancelled, since the log does not hold their events. */
  cancelled: number;
  /** Facts for the log that were dropped for the same reason. */
  dropped: number;
}

/**
 * Makes the log that is there the one behind the database. Rebuilds the read models from it. The relay goes on at its
 * own checkpoint if the log holds that event. Otherwise it goes on at the end of the log, or where the operator says:
 * the events before are not told. Messages to the dispatchers are thrown away, since they may tell of events that the
 * log does not hold; the relay tells again what follows its checkpoint. It can be run again if it was interrupted.
 *
 * @returns undefined if the signal aborted first
 * @throws {ActRefused} if the log already is the one behind the database
 * @throws {StartError} if NATS does not answer, or another rebuild or verify runs
 */
export async function adoptLog(options: AdoptOptions, signal: AbortSignal): Promise<Adopted | undefined> {
  const { client, pool, tellSince, now } = options;
  await requireDifferentLog(options);
  const keepsRelayCheckpoint = await belongsToLog(options, await readRelayCheckpoint(pool));
  const lost = await findLost(client, pool, signal);
  await deleteMessages(options, signal);
  const requested = tellSince === undefined ? undefined : await lastEventBefore(client, tellSince);
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

/** @throws {ActRefused} */
async function requireDifferentLog(options: AdoptOptions): Promise<void> {
  const { anchor, position } = await readCheckpoint(options.pool, READ_MODEL_SCHEMA);
  try {
    await requireSameLog(options);
  } catch (error) {
    if (error instanceof DifferentLog) return;
    throw error;
  }
  // Without an anchor nobody can tell: the operator's word counts.
  if (!anchor && position !== BEFORE_FIRST) return;
  throw new CommandRefused(
    "The event log is the one that this database was built from, so there is nothing to adopt. Run rebuild without --adopt-log.",
  );
}

/** Tells whether the log is known to hold the event of a checkpoint. */
async function belongsToLog({ client }: AdoptOptions, checkpoint: Checkpoint): Promise<boolean> {
  try {
    await requireAnchored(client, "the relay", checkpoint);
    return checkpoint.anchor !== null;
  } catch (error) {
    if (error instanceof DifferentLog) return false;
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
    throw new StartError("NATS does not answer (NATS_URL)", { cause: error });
  }
}
