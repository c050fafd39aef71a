import type { AllStreamRecordedEvent, EventStoreDBClient } from "@eventstore/db-client";
import { REQUEST_TIMEOUT_MS } from "./log.ts";
import { readWithin } from "./read-within.ts";

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
): Promise<AllStreamRecordedEvent | undefined> {
  const streamingRead = client.readAll({ fromPosition: { commit: position, prepare: position }, maxCount: 1 });
  let foundEvent: AllStreamRecordedEvent | undefined;
  try {
    for await (const { event } of readWithin(REQUEST_TIMEOUT_MS, streamingRead))
      if (event?.position.commit === position) foundEvent = event;
  } catch (error) {
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
