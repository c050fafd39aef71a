import { BACKWARDS, END, type EventStoreDBClient, type ReadPosition } from "@eventstore/db-client";
import { isCatalogStream } from "../../shared/domain/events/catalog.ts";
import { BEFORE_FIRST_EVENT, type Checkpoint } from "../checkpoints/checkpoint.ts";
import { readWithTimeout } from "../checkpoints/read-with-timeout.ts";

const PAGE_SIZE = 1_000;

/**
 * Finds the last catalog event that the log stored before the given time, and returns its position as a checkpoint.
 *
 * @param epochMs milliseconds since 1970
 */
export async function findLastEventBefore(client: EventStoreDBClient, epochMs: number): Promise<Checkpoint> {
  let fromPosition: ReadPosition = END;
  for (;;) {
    const pageEvents = client.readAll({ direction: BACKWARDS, fromPosition, maxCount: PAGE_SIZE });
    let foundCheckpoint: Checkpoint | undefined;
    let eventCount = 0;
    // The loop always reads the whole page. A `break` would leave the gRPC call open, and the client could then not be
    // closed.
    for await (const { event } of readWithTimeout(pageEvents)) {
      eventCount += 1;
      if (!event) continue;
      const { commit: position } = event.position;
      fromPosition = event.position;
      if (foundCheckpoint || !isCatalogStream(event.streamId) || event.created.getTime() >= epochMs) continue;
      foundCheckpoint = { position, anchor: { position, eventId: event.id } };
    }
    if (foundCheckpoint) return foundCheckpoint;
    if (eventCount < PAGE_SIZE) return { position: BEFORE_FIRST_EVENT, anchor: null };
  }
}
