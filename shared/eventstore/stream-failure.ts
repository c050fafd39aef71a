import { isCommandError } from "@eventstore/db-client";
import { toStreamName } from "../domain/events/category.ts";
import { quarantineStreams } from "../domain/events/quarantine.ts";
import { EventSchemaError } from "../domain/events/stored-event.ts";
import type { EventLog } from "./log.ts";

/** Small stream that {@link isLogAvailable} reads as a test. All services may read it, and it may be empty. */
const OTHER_STREAM = toStreamName(quarantineStreams, "streams");

/**
 * Returns true if an error concerns only one stream and a retry cannot succeed. Examples are an event that cannot be
 * decoded, and a missing permission. May read a second stream, to find out if the log refuses all streams.
 */
export async function concernsOneStream(log: Pick<EventLog, "readLast">, error: unknown): Promise<boolean> {
  if (error instanceof EventSchemaError) return true;
  return error instanceof Error && isCommandError(error) && isLogAvailable(log);
}

/**
 * Returns true if the log answers a read of a small test stream. An earlier failure then concerned only its own stream.
 * An event that cannot be decoded counts as an answer.
 */
export async function isLogAvailable(log: Pick<EventLog, "readLast">): Promise<boolean> {
  try {
    await log.readLast(OTHER_STREAM);
    return true;
  } catch (error) {
    return error instanceof EventSchemaError;
  }
}
