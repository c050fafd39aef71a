import { BACKWARDS, END, type EventStoreDBClient, type ReadStreamOptions } from "@eventstore/db-client";
import { categories } from "../../../shared/domain/events/catalog.ts";
import { type DataOf, toStreamName } from "../../../shared/domain/events/category.ts";
import { type ClinicEvent, clinicStreams } from "../../../shared/domain/events/clinic.ts";
import { readStoredEvents } from "../../../shared/eventstore/read-log.ts";
import { toKey, toPurposeKey } from "../index/index-keys.ts";
import { type IndexedLog, readIndexedEvents } from "../index/read-rows.ts";
import { getCategoryName } from "../queries/query-fields.ts";
import { type LogEvent, toLogEvent } from "./audit-event.ts";

const PAGE_SIZE = 1_000;

/**
 * Reads the events of one stream in order. Yields nothing if the stream does not exist. May include events that are
 * appended during the read.
 *
 * @throws {LogUnavailableError} if the event log cannot be read
 */
export async function* readStreamEvents(client: EventStoreDBClient, stream: string): AsyncGenerator<LogEvent> {
  for (let fromRevision = 0n; ; ) {
    const page = await readPage(client, stream, { fromRevision, maxCount: PAGE_SIZE });
    yield* page;
    const lastEvent = page.at(-1);
    if (page.length < PAGE_SIZE || !lastEvent) return;
    fromRevision = BigInt(lastEvent.auditEvent.revision) + 1n;
  }
}

/**
 * Reads the events of one stream in order, also of a deleted stream. The log has its events until they are scavenged.
 *
 * @throws {LogUnavailableError} if the event log cannot be read
 * @throws the error of the database, which is needed only if the stream is deleted or does not exist
 */
export async function* readKnownEvents(log: IndexedLog, stream: string): AsyncGenerator<LogEvent, undefined> {
  let isFound = false;
  for await (const event of readStreamEvents(log.client, stream)) {
    isFound = true;
    yield event;
  }
  if (!isFound) yield* readDeletedStream(log, stream);
}

/** Finds the events of a stream in the index. Their data must name the id in the stream's name. */
async function* readDeletedStream(log: IndexedLog, stream: string): AsyncGenerator<LogEvent, undefined> {
  const [category, id] = [getCategoryName(stream), stream.slice(stream.indexOf("-") + 1)];
  const types = categories.flatMap(({ name, events }) => (name === category ? Object.keys(events) : []));
  const query = { keys: [toKey(id), toPurposeKey("clinic", id)], types, clinicIds: null };
  for await (const event of readIndexedEvents(log, query)) if (event.auditEvent.stream === stream) yield event;
}

/**
 * Reads the first event of a stream. Returns undefined if the stream does not exist. Throws the errors of
 * {@link readKnownEvents}.
 */
export async function readFirstEvent(log: IndexedLog, stream: string): Promise<LogEvent | undefined> {
  const [event] = await readPage(log.client, stream, { fromRevision: 0n, maxCount: 1 });
  return event ?? (await readDeletedStream(log, stream).next()).value;
}

/**
 * Reads the last event of a stream. Returns undefined if the stream does not exist.
 *
 * @param maxRevision last revision to consider; all revisions if undefined
 * @throws {LogUnavailableError} if the event log cannot be read
 */
export async function readLastEvent(
  client: EventStoreDBClient,
  stream: string,
  maxRevision?: bigint,
): Promise<LogEvent | undefined> {
  return (await readPage(client, stream, { direction: BACKWARDS, fromRevision: maxRevision ?? END, maxCount: 1 }))[0];
}

/**
 * Reads the registration of a clinic. The registration contains the clinic's name and time zone, which never change.
 * Throws the errors of {@link readKnownEvents}.
 *
 * @returns undefined if the clinic does not exist, or this release cannot read the registration
 */
export async function readClinicRegistration(
  log: IndexedLog,
  clinicId: string,
): Promise<DataOf<ClinicEvent, "ClinicRegistered"> | undefined> {
  const event = (await readFirstEvent(log, toStreamName(clinicStreams, clinicId)))?.catalogEvent;
  return event?.type === "ClinicRegistered" ? event.data : undefined;
}

async function readPage(client: EventStoreDBClient, stream: string, options: ReadStreamOptions): Promise<LogEvent[]> {
  return (await readStoredEvents(client, stream, options)).map((event) => toLogEvent(event));
}
