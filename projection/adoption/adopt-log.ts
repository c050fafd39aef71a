import { BACKWARDS, END, type EventStoreDBClient, type ReadPosition } from "@eventstore/db-client";
import type pg from "pg";
import { isCatalogStream } from "../../shared/domain/events/catalog.ts";
import { REQUEST_TIMEOUT_MS } from "../../shared/eventstore/log.ts";
import { BEFORE_FIRST_EVENT, readWithin } from "../../shared/eventstore/read-log.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { StartError } from "../../shared/runtime/run-service.ts";
import { type Checkpoint, readCheckpoint } from "../checkpoints/checkpoint.ts";
import { readRelayCheckpoint, setRelayCheckpoint } from "../checkpoints/relay-checkpoint.ts";
import { findLogDifference, requireCheckpointInLog, requireSameLog } from "../checkpoints/same-log.ts";
import { type RebuildOptions, rebuild } from "../engine/rebuild.ts";
import { CommandRefusedError } from "../quarantine/quarantine-commands.ts";
import { deleteEventStream, deriveStreamNames, JETSTREAM_OPTIONS } from "../relay/event-stream.ts";
import { NatsUnavailableError, withNats } from "../relay/nats-session.ts";
import type { NatsSettings } from "../relay/nats-settings.ts";
import { closeLostDeliveries, deleteReplayPositions, findLostRows } from "./lost-webhook-state.ts";

interface AdoptionOptions extends Omit<RebuildOptions, "adopt" | "includedStream"> {
  databaseUrl: string;
  nats: NatsSettings;
  /**
   * If set, the relay sends all events that the log stored at or after this time. Otherwise the relay continues at its
   * checkpoint or, if the log does not hold that event, sends only future events. Milliseconds since 1970.
   */
  notifyFrom: number | undefined;
  /** Milliseconds since 1970. */
  now: number;
}

interface AdoptionResult {
  /** Log position that the new read models reflected when they came into use. */
  position: bigint;
  /** Log position after which the relay continues. */
  relayPosition: bigint;
  /** Deliveries whose events the log does not hold. */
  cancelledDeliveryCount: number;
  /** Entries whose events the log does not hold. */
  deletedOutboxEntryCount: number;
}

/**
 * Adopts the connected event log for this database, and rebuilds the read models from the log. The database may be
 * empty, because it was lost. An interrupted adoption can be repeated.
 *
 * If `notifyFrom` is set, the relay continues at that time. Otherwise, the relay continues at its checkpoint if the log
 * holds that event, or else at the end of the log. The relay does not send earlier events. The adoption deletes all
 * messages to the dispatchers, because the log may not hold their events. The relay publishes the events after its
 * checkpoint again.
 *
 * @returns undefined if the signal aborted first
 * @throws {CommandRefusedError} if the database was built from this log
 * @throws {StartError} if NATS is unavailable, or another rebuild or verify is running
 */
export async function adoptLog(options: AdoptionOptions, signal: AbortSignal): Promise<AdoptionResult | undefined> {
  const { client, pool, notifyFrom, now } = options;
  await requireDifferentLog(options);
  const shouldKeepRelayCheckpoint = await holdsRelayEvent(options);
  const lostRows = await findLostRows(client, pool, signal);
  await deleteMessages(options, signal);
  const sharedPosition = shouldKeepRelayCheckpoint ? (await readRelayCheckpoint(pool)).position : BEFORE_FIRST_EVENT;
  await deleteReplayPositions(pool, sharedPosition);
  const requestedCheckpoint = notifyFrom === undefined ? undefined : await findLastEventBefore(client, notifyFrom);
  let adoptionResult: AdoptionResult | undefined;
  const adopt = async (connection: pg.ClientBase) => {
    const readModelCheckpoint = await readCheckpoint(connection, READ_MODEL_SCHEMA);
    const oldCheckpoint = await readRelayCheckpoint(connection);
    const relayCheckpoint = requestedCheckpoint ?? (shouldKeepRelayCheckpoint ? oldCheckpoint : readModelCheckpoint);
    await setRelayCheckpoint(connection, relayCheckpoint);
    const counts = await closeLostDeliveries(connection, lostRows, now);
    adoptionResult = { position: readModelCheckpoint.position, relayPosition: relayCheckpoint.position, ...counts };
  };
  const swapPosition = await rebuild({ ...options, adopt }, signal);
  return swapPosition === undefined ? undefined : adoptionResult;
}

async function requireDifferentLog(options: AdoptionOptions): Promise<void> {
  if (await findLogDifference(requireSameLog(options))) return;
  const { eventId } = await readCheckpoint(options.pool, READ_MODEL_SCHEMA);
  // The database is empty, because it was lost.
  if (eventId === null) return;
  throw new CommandRefusedError(
    "This database was built from this event log, so there is nothing to adopt. Run rebuild without --adopt-log.",
  );
}

async function holdsRelayEvent({ client, pool }: AdoptionOptions): Promise<boolean> {
  const checkpoint = await readRelayCheckpoint(pool);
  const logDifference = await findLogDifference(requireCheckpointInLog(client, "the relay", checkpoint));
  return !logDifference && checkpoint.eventId !== null;
}

async function deleteMessages({ nats, databaseUrl }: AdoptionOptions, signal: AbortSignal): Promise<void> {
  try {
    await withNats({ nats, name: "clinic adoption", signal }, async (connection) => {
      await deleteEventStream(await connection.jetstreamManager(JETSTREAM_OPTIONS), deriveStreamNames(databaseUrl));
    });
  } catch (error) {
    if (error instanceof NatsUnavailableError) throw new StartError(error.message);
    throw new StartError("NATS does not answer. Check NATS_URL.", { cause: error });
  }
}

const PAGE_SIZE = 1_000;

/** @throws {LogUnavailableError} */
async function findLastEventBefore(client: EventStoreDBClient, epochMs: number): Promise<Checkpoint> {
  let fromPosition: ReadPosition = END;
  for (;;) {
    const pageEvents = client.readAll({ direction: BACKWARDS, fromPosition, maxCount: PAGE_SIZE });
    let eventCount = 0;
    for await (const { event } of readWithin(REQUEST_TIMEOUT_MS, pageEvents)) {
      eventCount += 1;
      if (!event) continue;
      const { commit: position } = event.position;
      fromPosition = event.position;
      if (!isCatalogStream(event.streamId) || event.created.getTime() >= epochMs) continue;
      return { position, eventId: event.id };
    }
    if (eventCount < PAGE_SIZE) return { position: BEFORE_FIRST_EVENT, eventId: null };
  }
}
