import { type EventStoreDBClient, StreamNotFoundError } from "@eventstore/db-client";
import { readWithin } from "../../../shared/eventstore/log.ts";
import { type EventStoreClientEvent, type LogEvent, toLogEvent } from "./audit-event.ts";

/** Number of events that are read at a time. */
const PAGE = 1_000;

/** Time limit for one page. Milliseconds. */
const PAGE_TIMEOUT_MS = 10_000;

/**
 * Reads the events of one stream in order; none if the stream does not exist. Events appended meanwhile may be
 * included.
 *
 * @throws {LogUnavailableError}
 */
export async function* readStreamEvents(
  client: EventStoreDBClient,
  stream: string,
): AsyncGenerator<LogEvent> {
  for (let from = 0n; ; ) {
    const page = await readPage(client, stream, from);
    yield* page;
    const last = page.at(-1);
    if (page.length < PAGE || !last) return;
    from = BigInt(last.shown.revision) + 1n;
  }
}

async function readPage(client: EventStoreDBClient, stream: string, from: bigint): Promise<LogEvent[]> {
  const read = client.readStream(stream, { fromRevision: from, maxCount: PAGE, deadline: PAGE_TIMEOUT_MS });
  const events: LogEvent[] = [];
  try {
    for await (const { event } of readWithin(PAGE_TIMEOUT_MS, read))
      if (event) events.push(toLogEvent(event as EventStoreClientEvent));
  } catch (error) {
    if (error instanceof StreamNotFoundError) return [];
    throw error;
  }
  return events;
}
