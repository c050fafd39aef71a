import { BACKWARDS, END, type EventStoreDBClient, type ReadPosition } from "@eventstore/db-client";
import type pg from "pg";
import { isCatalogStream } from "../../shared/domain/events/catalog.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { REQUEST_TIMEOUT_MS } from "../../shared/eventstore/log.ts";
import { BEFORE_FIRST_EVENT, readWithin } from "../../shared/eventstore/read-log.ts";
import { closeConnection, connectWithoutTimeouts } from "../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { StartError } from "../../shared/runtime/run-service.ts";
import { type Checkpoint, readCheckpoint } from "../checkpoints/checkpoint.ts";
import { findLogDifference, requireCheckpointInLog, requireSameLog } from "../checkpoints/same-log.ts";
import { readWebhookCheckpoint, setWebhookCheckpoints } from "../checkpoints/webhook-checkpoints.ts";
import { type RebuildOptions, rebuild } from "../engine/rebuild.ts";
import { deleteEventStream, deriveStreamNames, JETSTREAM_OPTIONS } from "../nats/event-stream.ts";
import { NatsUnavailableError, withNats } from "../nats/nats-session.ts";
import type { NatsSettings } from "../nats/nats-settings.ts";
import { CommandRefusedError } from "../quarantine/confirmed-types.ts";

interface AdoptionOptions extends Omit<RebuildOptions, "adopt"> {
  databaseUrl: string;
  nats: NatsSettings;
  /**
   * Milliseconds since 1970. If set, partners receive all events that the log stored at or after this time. Otherwise,
   * they receive the events after the deliveries checkpoint. If the log lacks the event of this checkpoint, they
   * receive only future events.
   */
  notifyFrom: number | undefined;
  /** Milliseconds since 1970. */
  now: number;
}

interface AdoptionResult {
  /** Log position that the new read models reflected when they came into use. */
  position: bigint;
  /** Log position after which partners receive the events. */
  deliveryPosition: bigint;
  /** Number of pending deliveries that were cancelled, because the log does not hold their events. */
  cancelledDeliveryCount: number;
}

/**
 * Adopts the connected event log for this database, and rebuilds the read models from the log. The database may be
 * empty, for example after a loss. An interrupted adoption can be repeated.
 *
 * The adoption deletes all messages in NATS, because some may belong to events that the log lacks. The relay then
 * publishes the events after the new checkpoint again.
 *
 * @returns undefined if the signal aborted first
 * @throws {CommandRefusedError} if the database was built from this log
 * @throws {StartError} if NATS is unavailable, or a rebuild, verify, prune or scrub is running
 */
export async function adoptLog(options: AdoptionOptions, signal: AbortSignal): Promise<AdoptionResult | undefined> {
  const { client, pool, notifyFrom, now } = options;
  await requireDifferentLog(options);
  const shouldKeepCheckpoint = await holdsDeliveredEvent(options);
  await deleteMessages(options, signal);
  const sharedPosition = shouldKeepCheckpoint
    ? (await readWebhookCheckpoint(pool, "deliveries")).position
    : BEFORE_FIRST_EVENT;
  await deleteReplayPositions(pool, sharedPosition);
  const requestedCheckpoint = notifyFrom === undefined ? undefined : await findLastEventBefore(client, notifyFrom);
  let adoptionResult: AdoptionResult | undefined;
  const adopt = async (connection: pg.ClientBase) => {
    const readModelCheckpoint = await readCheckpoint(connection, READ_MODEL_SCHEMA);
    const oldCheckpoint = await readWebhookCheckpoint(connection, "deliveries");
    const newCheckpoint = requestedCheckpoint ?? (shouldKeepCheckpoint ? oldCheckpoint : readModelCheckpoint);
    await setWebhookCheckpoints(connection, newCheckpoint);
    const cancelledDeliveryCount = await deleteLostState(connection, now);
    await connection.query("CALL audit.reset_index()");
    const { position } = readModelCheckpoint;
    adoptionResult = { position, deliveryPosition: newCheckpoint.position, cancelledDeliveryCount };
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

async function holdsDeliveredEvent({ client, pool }: AdoptionOptions): Promise<boolean> {
  const checkpoint = await readWebhookCheckpoint(pool, "deliveries");
  const logDifference = await findLogDifference(requireCheckpointInLog(client, "the deliveries", checkpoint));
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

/**
 * Cancels the pending deliveries whose events the adopted log lacks. Deletes all recorded revocations. Also deletes
 * endpoint failures, late events and replay progress that exist only for the former log. The read models must already
 * be built from the adopted log.
 *
 * @param now milliseconds since 1970
 * @returns the number of cancelled deliveries
 */
export async function deleteLostState(connection: pg.ClientBase, now: number): Promise<number> {
  const cancelResult = await connection.query(
    `WITH cancelled AS (
       DELETE FROM webhooks.pending_delivery p
        WHERE NOT EXISTS (SELECT FROM ${READ_MODEL_SCHEMA}.public_event e WHERE e.event_id = p.event_id)
       RETURNING delivery_id, attempt_count)
     UPDATE webhooks.delivery d
        SET status = 'cancelled', attempt_count = cancelled.attempt_count, next_attempt_at = NULL, updated_at = $1
       FROM cancelled WHERE d.delivery_id = cancelled.delivery_id`,
    [toInstant(now)],
  );
  await connection.query(
    `DELETE FROM webhooks.failing_endpoint f WHERE NOT EXISTS (
       SELECT FROM ${READ_MODEL_SCHEMA}.webhook_endpoint e WHERE e.endpoint_id = f.endpoint_id)`,
  );
  await connection.query(
    `DELETE FROM webhooks.late_event l WHERE NOT EXISTS (
       SELECT FROM ${READ_MODEL_SCHEMA}.public_event e WHERE e.event_id = l.event_id)`,
  );
  await connection.query(
    `UPDATE webhooks.late_event l SET position = e.position
       FROM ${READ_MODEL_SCHEMA}.public_event e WHERE e.event_id = l.event_id`,
  );
  await connection.query("DELETE FROM webhooks.revocation");
  await deleteLostProgress(connection);
  return cancelResult.rowCount ?? 0;
}

/**
 * Clears the replay position of deliveries whose last replay request is not in the adopted log. Otherwise, they would
 * ignore a later request at a lower position of the adopted log.
 * @param after last log position that both logs share
 */
async function deleteReplayPositions(pool: pg.Pool, after: bigint): Promise<void> {
  const connection = await connectWithoutTimeouts(pool);
  try {
    await connection.query("UPDATE webhooks.delivery SET replay_position = NULL WHERE replay_position > $1", [after]);
  } finally {
    await closeConnection(connection);
  }
}

/**
 * Deletes the progress of replays whose request is not in the adopted log, or is newer than the progress. A request
 * that is repeated after the adoption has the same replay id. With the old progress, the repeated request might never
 * start.
 */
async function deleteLostProgress(connection: pg.ClientBase): Promise<void> {
  await connection.query(
    `DELETE FROM webhooks.replay w WHERE NOT EXISTS (
       SELECT FROM ${READ_MODEL_SCHEMA}.webhook_replay r
        WHERE r.replay_id = w.replay_id AND r.requested_at <= w.updated_at)`,
  );
}
