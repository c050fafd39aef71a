import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { formatCommandLine } from "../../shared/command-line/format-command-line.ts";
import { BEFORE_FIRST_EVENT, readEventAt, readLogEnd } from "../../shared/eventstore/read-log.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { waitUnlessAborted } from "../../shared/runtime/abort.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import { StopError } from "../../shared/runtime/failures.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { type Checkpoint, readCheckpoint } from "./checkpoint.ts";
import { readWebhookCheckpoint } from "./webhook-checkpoints.ts";

export interface LogAndDatabase {
  client: EventStoreDBClient;
  pool: pg.Pool;
}

/** The database was built from a different event log, or the event log is an older copy of the original log. */
export class DifferentLogError extends StopError {
  override readonly name = "DifferentLogError";

  /**
   * @param checkpointText part of the message about the checkpoint, such as "the messages stopped after position 7"
   * @param logText part of the message about the log, such as "the log is empty"
   */
  constructor(checkpointText: string, logText: string) {
    super(
      `The event log is not the one that this database was built from: ${checkpointText}, but ${logText}. The log was replaced or restored from an older backup, or EVENTSTORE_URL is wrong. Nothing is written to the log or the database. To recover, start the original log again. To continue with this log instead, run \`${formatCommandLine("projection rebuild --adopt-log")}\`.`,
    );
  }
}

/** Reason in public health reports for a role that stopped because the database was built from a different log. */
export const DIFFERENT_LOG = "the event log is not the one that this database was built from";

/**
 * Checks that the database was built from the log: the log must hold the event of each checkpoint. Every role checks the
 * checkpoints of the read models, the deliveries and the messages, so a mismatch stops all roles.
 *
 * @throws {DifferentLogError}
 * @throws {LogUnavailableError}
 */
export async function requireSameLog({ client, pool }: LogAndDatabase): Promise<void> {
  const readModelCheckpoint = await readCheckpoint(pool, READ_MODEL_SCHEMA);
  await requireCheckpointInLog(client, "the read models", readModelCheckpoint);
  for (const name of ["deliveries", "messages"] as const) {
    const checkpoint = await readWebhookCheckpoint(pool, name);
    if (checkpoint.eventId !== readModelCheckpoint.eventId)
      await requireCheckpointInLog(client, `the ${name}`, checkpoint);
  }
}

/**
 * Checks that the log holds the event of a checkpoint. A scavenge never removes this event, because the service never
 * deletes or truncates the streams of the catalog.
 *
 * @param ownerText subject of the error message, such as "the deliveries"
 * @throws {DifferentLogError}
 * @throws {LogUnavailableError}
 */
export async function requireCheckpointInLog(
  client: EventStoreDBClient,
  ownerText: string,
  { position, eventId }: Checkpoint,
): Promise<void> {
  if (eventId === null) return;
  const foundEvent = await readEventAt(client, position);
  if (foundEvent?.id === eventId) return;
  const checkpointText = `${ownerText} stopped after event ${eventId} at position ${position}`;
  throw new DifferentLogError(checkpointText, await describeLogAt(client, position, foundEvent?.id));
}

/**
 * Waits for a check that may throw a {@link DifferentLogError}.
 *
 * @returns the error; undefined if the check passes
 * @throws all other errors of the check
 */
export async function findLogDifference(logCheck: Promise<unknown>): Promise<DifferentLogError | undefined> {
  try {
    await logCheck;
    return undefined;
  } catch (error) {
    if (error instanceof DifferentLogError) return error;
    throw error;
  }
}

async function describeLogAt(
  client: EventStoreDBClient,
  position: bigint,
  foundId: string | undefined,
): Promise<string> {
  if (foundId !== undefined) return `the log holds event ${foundId} there`;
  const logEnd = await readLogEnd(client);
  if (logEnd === BEFORE_FIRST_EVENT) return "the log is empty";
  return logEnd < position ? `the log ends at position ${logEnd}` : "the log holds no event there";
}

const CHECK_INTERVAL_MS = 1_000;

/**
 * Checks every second that the log matches the database, until the signal aborts. Ignores all other errors, for example
 * of an unavailable server.
 *
 * @throws {DifferentLogError}
 */
export async function watchSameLog(
  { logger, ...logAndDatabase }: LogAndDatabase & { logger: Logger },
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      await waitUnlessAborted(requireSameLog(logAndDatabase), signal);
    } catch (error) {
      if (error instanceof DifferentLogError) throw error;
      logger.debug({ error }, "Cannot check whether the event log matches the database.");
    }
    await pause(CHECK_INTERVAL_MS, signal);
  }
}
