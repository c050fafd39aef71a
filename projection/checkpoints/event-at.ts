import type { EventStoreDBClient } from "@eventstore/db-client";
import { isUnavailable, LogUnavailableError } from "../../shared/eventstore/log.ts";
import type { LogPosition } from "../../shared/eventstore/subscription.ts";
import { readWithTimeout } from "./read-with-timeout.ts";

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
    if (!isInvalidPosition(error as ServiceError)) throw error;
  }
  return foundEvent;
}

interface ServiceError extends Error {
  /** gRPC status code. */
  code?: number;
}

/**
 * Returns true if a read failed because no record starts at its position. The embedded log then returns the status
 * INVALID_ARGUMENT (3), and EventStoreDB 24.10 returns the status UNKNOWN (2).
 */
function isInvalidPosition({ code, message }: ServiceError): boolean {
  return code === 3 || (code === 2 && message.includes("InvalidPosition"));
}
