import { BACKWARDS, END, type EventStoreDBClient, type ReadPosition } from "@eventstore/db-client";
import { isCatalogStream } from "../../shared/domain/events/catalog.ts";
import { REQUEST_TIMEOUT_MS } from "../../shared/eventstore/log.ts";
import { BEFORE_FIRST_EVENT } from "../../shared/eventstore/log-end.ts";
import { readWithin } from "../../shared/eventstore/read-within.ts";
import type { Checkpoint } from "../checkpoints/checkpoint.ts";

const PAGE_SIZE = 1_000;

/**
 * Finds the last catalog event that the log stored before the given time, and returns its position as a checkpoint.
 *
 * @param epochMs milliseconds since 1970
 * @throws {LogUnavailableError}
 */
export async function findLastEventBefore(client: EventStoreDBClient, epochMs: number): Promise<Checkpoint> {
  let fromPosition: ReadPosition = END;
  for (;;) {
    const pageEvents = client.readAll({ direction: BACKWARDS, fromPosition, maxCount: PAGE_SIZE });
    let eventCount = 0;
    for await (const { event } of readWithin(REQUEST_TIMEOUT_MS, pageEvents)) {
      eventCount += 1;
      if (!event) continue;
      const { commit: position } = event.position;
      fromPosition = event.position;
      if (!isCatalogStream(event.streamId) || event.created.getTime() >= epochMs) continue;
      return { position, eventId: event.id };
    }
    if (eventCount < PAGE_SIZE) return { position: BEFORE_FIRST_EVENT, eventId: null };
  }
}
