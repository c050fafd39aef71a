import { StreamDeletedError } from "@eventstore/db-client";
import type { CatalogEvent } from "../domain/events/catalog.ts";
import type { EventLog, RecordedEvent } from "./log.ts";

/** Part of the event log that reads streams. */
export type StreamReader = Pick<EventLog, "read">;

/**
 * Reads a stream up to a revision. Returns no events if the stream was deleted or never existed.
 *
 * @throws {LogUnavailableError}
 * @throws {EventSchemaError} if an event of the stream is unreadable
 */
export async function readStreamIfPresent<Event extends CatalogEvent>(
  log: StreamReader,
  stream: string,
  lastRevision?: bigint,
): Promise<RecordedEvent<Event>[]> {
  try {
    return await log.read<Event>(stream, lastRevision);
  } catch (error) {
    if (error instanceof StreamDeletedError) return [];
    throw error;
  }
}
