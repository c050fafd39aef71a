import { type EventStoreDBClient, StreamNotFoundError } from "@eventstore/db-client";
import { readWithin } from "../../../shared/eventstore/log.ts";
import { type ClientEvent, type LogEvent, toLogEvent } from "./audit-event.ts";

/** A stream is read in parts of so many events, each within the time limit. */
const PART = 1_000;

/** Milliseconds. */
const PART_WITHIN = 10_000;

/**
 * The events of one stream, in order, none where there is no such stream. Events that are appended meanwhile may or
 * may not be among them.
 *
 * @throws {LogUnavailable}
 */
export async function* readStreamEvents(
  client: EventStoreDBClient,
  stream: string,
): AsyncGenerator<LogEvent> {
  for (let from = 0n; ; ) {
    const part = await readPart(client, stream, from);
    yield* part;
    const last = part.at(-1);
    if (part.length < PART || !last) return;
    from = BigInt(last.shown.revision) + 1n;
  }
}

async function readPart(client: EventStoreDBClient, stream: string, from: bigint): Promise<LogEvent[]> {
  const read = client.readStream(stream, { fromRevision: from, maxCount: PART, deadline: PART_WITHIN });
  const events: LogEvent[] = [];
  try {
    for await (const { event } of readWithin(PART_WITHIN, read))
      if (event) events.push(toLogEvent(event as ClientEvent));
  } catch (error) {
    if (error instanceof StreamNotFoundError) return [];
    throw error;
  }
  return events;
}
