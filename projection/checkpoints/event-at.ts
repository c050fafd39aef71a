import type { EventStoreDBClient } from "@eventstore/db-client";
import { isUnavailable, LogUnavailableError } from "../../shared/eventstore/log.ts";
import type { LogPosition } from "../../shared/eventstore/subscription.ts";
import { readWithTimeout } from "./read-with-timeout.ts";

/**
 * Reads the event at a position of the log.
 *
 * @returns undefined if no event starts there
 * @throws {LogUnavailableError}
 * @throws the client's error for anything else, such as a damaged record: it does not prove that there is no event
 */
export async function eventAt(
  client: EventStoreDBClient,
  position: bigint,
): Promise<(LogPosition & { id: string }) | undefined> {
  const read = client.readAll({ fromPosition: { commit: position, prepare: position }, maxCount: 1 });
  let found: (LogPosition & { id: string }) | undefined;
  try {
    for await (const { event } of readWithTimeout(read)) {
      if (event?.position.commit !== position) continue;
      const { id, streamId: stream, revision, type } = event;
      found = { id, position, stream, revision, type };
    }
  } catch (error) {
    if (isUnavailable(error))
      throw new LogUnavailableError("The event log is unavailable.", { cause: error });
    if (!isInvalidPosition(error)) throw error;
  }
  return found;
}

/** gRPC's INVALID_ARGUMENT. EventStoreDB refuses a position at which no record starts with this code. */
const INVALID_ARGUMENT = 3;

function isInvalidPosition(error: unknown): boolean {
  return (error as { code?: unknown }).code === INVALID_ARGUMENT;
}
