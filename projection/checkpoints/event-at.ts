import type { EventStoreDBClient } from "@eventstore/db-client";
import { isUnavailable, LogUnavailableError } from "../../shared/eventstore/log.ts";
import type { LogPosition } from "../../shared/eventstore/subscription.ts";
import { readWithTimeout } from "./read-with-timeout.ts";

/** gRPC status INVALID_ARGUMENT. EventStoreDB returns this status if no record starts at the given position. */
const INVALID_ARGUMENT = 3;

/**
 * Reads the event at a position of the log.
 *
 * @returns undefined if no event starts at the position
 * @throws {LogUnavailableError}
 * @throws other client errors, for example for a damaged record. Such an error does not mean that the event is missing
 */
export async function readEventAt(
  client: EventStoreDBClient,
  position: bigint,
): Promise<(LogPosition & { id: string }) | undefined> {
  const events = client.readAll({ fromPosition: { commit: position, prepare: position }, maxCount: 1 });
  let foundEvent: (LogPosition & { id: string }) | undefined;
  try {
    for await (const { event } of readWithTimeout(events)) {
      if (event?.position.commit !== position) continue;
      const { id, streamId: stream, revision, type } = event;
      foundEvent = { id, position, stream, revision, type };
    }
  } catch (error) {
    if (isUnavailable(error)) throw new LogUnavailableError("The event log is unavailable.", { cause: error });
    if ((error as { code?: unknown }).code !== INVALID_ARGUMENT) throw error;
  }
  return foundEvent;
}
