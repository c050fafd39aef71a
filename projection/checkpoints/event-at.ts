import { AccessDeniedError, type EventStoreDBClient } from "@eventstore/db-client";
import { isUnavailable, LogUnavailable } from "../../shared/eventstore/log.ts";
import type { LogPosition } from "../../shared/eventstore/subscription.ts";
import { boundedRead } from "./bounded-read.ts";

/**
 * The event at a position of the log; undefined if no event starts there.
 *
 * @throws {LogUnavailable}
 */
export async function eventAt(
  client: EventStoreDBClient,
  position: bigint,
): Promise<(LogPosition & { id: string }) | undefined> {
  const read = client.readAll({ fromPosition: { commit: position, prepare: position }, maxCount: 1 });
  let found: (LogPosition & { id: string }) | undefined;
  try {
    for await (const { event } of boundedRead(read)) {
      if (event?.position.commit !== position) continue;
      const { id, streamId: stream, revision, type } = event;
      found = { id, position, stream, revision, type };
    }
  } catch (error) {
    if (error instanceof LogUnavailable || error instanceof AccessDeniedError) throw error;
    if (isUnavailable(error)) throw new LogUnavailable("the event log is unavailable", { cause: error });
    // The server refuses a position at which no event starts.
  }
  return found;
}
