import { isCommandError } from "@eventstore/db-client";
import { toStreamName } from "../domain/events/category.ts";
import { quarantineStreams } from "../domain/events/quarantine.ts";
import { EventSchemaError } from "../domain/events/stored-event.ts";
import type { EventLog } from "./log.ts";

/** Small stream that all services may read, to test whether the log responds. The stream may be empty. */
const OTHER_STREAM = toStreamName(quarantineStreams, "streams");

/**
 * Returns true if an error means that only one stream cannot be read, and that a retry cannot succeed. Examples are an
 * unreadable event, and a stream that the user may not read. Reads another stream, because the log may
 * refuse all streams.
 */
export async function concernsOneStream(log: Pick<EventLog, "readLast">, error: unknown): Promise<boolean> {
  if (error instanceof EventSchemaError) return true;
  return error instanceof Error && isCommandError(error) && isLogAvailable(log);
}

/**
 * Returns true if the log answers a read of another, small stream. An earlier failure then concerns only its own
 * stream. An unreadable event counts as an answer, too.
 */
export async function isLogAvailable(log: Pick<EventLog, "readLast">): Promise<boolean> {
  try {
    await log.readLast(OTHER_STREAM);
    return true;
  } catch (error) {
    return error instanceof EventSchemaError;
  }
}
