import { randomUUID } from "node:crypto";
import type { EventStoreDBClient, RecordedEvent as StoredEvent } from "@eventstore/db-client";
import type pg from "pg";
import { toStreamName } from "../../shared/domain/events/category.ts";
import type { Actor } from "../../shared/domain/events/metadata.ts";
import { type QuarantineEvent, quarantineStreams } from "../../shared/domain/events/quarantine.ts";
import { EventSchemaError, parseStoredEvent } from "../../shared/domain/events/stored-event.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { createEventLog, EMPTY_STREAM, WrongExpectedRevisionError } from "../../shared/eventstore/log.ts";
import { readEventAt, readStoredEvents } from "../../shared/eventstore/read-log.ts";
import type { LogPosition } from "../../shared/eventstore/subscription.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { readCheckpoint } from "../checkpoints/checkpoint.ts";
import type { LogAndDatabase } from "../checkpoints/same-log.ts";
import { readProcessStatuses } from "../roles/process-status.ts";

/**
 * Stream with the operators' confirmations. A confirmation states that an event type is faulty, and not the release.
 */
export const QUARANTINE_STREAM = toStreamName(quarantineStreams, "streams");

/** Log position of the last confirmation, by event type. Earlier failures of the type do not blow the fuse. */
export type ConfirmedTypes = ReadonlyMap<string, bigint>;

/** Returns true if an operator has confirmed the type of a failed event, after the event was stored. */
export function isConfirmed(confirmedTypes: ConfirmedTypes, { type, position }: LogPosition): boolean {
  return position < (confirmedTypes.get(type) ?? position);
}

/**
 * Reads the operators' confirmations. Ignores a confirmation that this release cannot read, because it affects only one
 * event type. The status then shows the stream of the confirmations as quarantined.
 *
 * @throws {LogUnavailableError}
 */
export async function readConfirmedTypes(client: EventStoreDBClient): Promise<ConfirmedTypes> {
  return foldConfirmations(await readConfirmations(client));
}

/** Maximum length of the stream; see `quarantineStreams`. */
const MAX_CONFIRMATIONS = 5_000;

function readConfirmations(client: EventStoreDBClient): Promise<StoredEvent[]> {
  return readStoredEvents(client, QUARANTINE_STREAM, { fromRevision: 0n, maxCount: MAX_CONFIRMATIONS });
}

function foldConfirmations(storedEvents: readonly StoredEvent[]): ConfirmedTypes {
  const confirmedTypes = new Map<string, bigint>();
  for (const storedEvent of storedEvents) {
    try {
      // All events of the stream belong to its category.
      const { data } = parseStoredEvent(storedEvent) as QuarantineEvent;
      confirmedTypes.set(data.eventType, storedEvent.position?.commit ?? 0n);
    } catch (error) {
      if (!(error instanceof EventSchemaError)) throw error;
    }
  }
  return confirmedTypes;
}

export class CommandRefusedError extends Error {
  override readonly name = "CommandRefusedError";
}

interface ConfirmCommand {
  actor: Actor;
  reason: string;
  /** Milliseconds since 1970. */
  now: number;
}

/**
 * Confirms that an event type is faulty, and not the release. The projectors then quarantine the streams of all events
 * of this type that fail and are already in the log.
 *
 * @param position log position of the event at which the projectors stopped
 * @returns the type of this event
 * @throws {CommandRefusedError} if the projectors have not stopped there, or the type is already confirmed
 */
export async function confirmType(
  { client, pool }: LogAndDatabase,
  position: bigint,
  { actor, reason, now }: ConfirmCommand,
): Promise<string> {
  const storedEvent = await readEventAt(client, position);
  if (!storedEvent) throw new CommandRefusedError(`There is no event at position ${position}.`);
  const { type: eventType, streamId: stream, revision } = storedEvent;
  if (!(await haveStoppedAt(pool, position))) {
    throw new CommandRefusedError(
      `The projectors have not stopped at position ${position}. Run status to see the position.`,
    );
  }
  const confirmations = await readConfirmations(client);
  if (isConfirmed(foldConfirmations(confirmations), { type: eventType, stream, revision, position }))
    throw new CommandRefusedError(`Type ${eventType} is already confirmed. Run status for details.`);
  const id = randomUUID();
  const metadata = {
    ...{ $correlationId: id, $causationId: id, actor, clinicId: null, environment: null },
    occurredAt: toInstant(now),
  };
  const event: QuarantineEvent = { type: "EventTypeConfirmed", data: { eventType, reason } };
  try {
    const lastRevision = confirmations.at(-1)?.revision ?? EMPTY_STREAM;
    await createEventLog(client).append(QUARANTINE_STREAM, lastRevision, [{ id, event, metadata }]);
  } catch (cause) {
    if (!(cause instanceof WrongExpectedRevisionError)) throw cause;
    throw new CommandRefusedError("Another operator confirmed a type just now. Run status, then try again.", { cause });
  }
  return eventType;
}

/** Returns true if any process reports that its projectors have stopped at a position. */
async function haveStoppedAt(pool: pg.Pool, position: bigint): Promise<boolean> {
  const statuses = await readProcessStatuses(pool);
  const hasStopped = statuses.some(
    ({ role, state, failedAt }) =>
      role === "projectors" && state === "failed" && failedAt?.position === String(position),
  );
  return hasStopped && (await readCheckpoint(pool, READ_MODEL_SCHEMA)).position < position;
}
