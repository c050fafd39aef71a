import { type EventStoreDBClient, StreamNotFoundError } from "@eventstore/db-client";
import { readWithin } from "../../../shared/eventstore/read-log.ts";
import { type LogEvent, toLogEvent } from "./audit-event.ts";

const PAGE_SIZE = 1_000;

const PAGE_TIMEOUT_MS = 10_000;

/**
 * Reads the events of one stream in order. Yields nothing if the stream does not exist. May include events that are
 * appended during the read.
 *
 * @throws {LogUnavailableError} if the event log cannot be read
 */
export async function* readStreamEvents(
  client: EventStoreDBClient,
  stream: string,
  startRevision = 0n,
): AsyncGenerator<LogEvent> {
  for (let fromRevision = startRevision; ; ) {
    const page = await readPage(client, stream, fromRevision);
    yield* page;
    const lastEvent = page.at(-1);
    if (page.length < PAGE_SIZE || !lastEvent) return;
    fromRevision = BigInt(lastEvent.auditEvent.revision) + 1n;
  }
}

/**
 * Reads the first event of a stream. Returns undefined if the stream does not exist.
 *
 * @throws {LogUnavailableError} if the event log cannot be read
 */
export async function readFirstEvent(client: EventStoreDBClient, stream: string): Promise<LogEvent | undefined> {
  return (await readPage(client, stream, 0n, 1))[0];
}

async function readPage(
  client: EventStoreDBClient,
  stream: string,
  startRevision: bigint,
  maxCount = PAGE_SIZE,
): Promise<LogEvent[]> {
  const streamingRead = client.readStream(stream, {
    fromRevision: startRevision,
    maxCount,
    deadline: PAGE_TIMEOUT_MS,
  });
  const events: LogEvent[] = [];
  try {
    for await (const { event } of readWithin(PAGE_TIMEOUT_MS, streamingRead)) if (event) events.push(toLogEvent(event));
  } catch (error) {
    if (error instanceof StreamNotFoundError) return [];
    throw error;
  }
  return events;
}
