import { BACKWARDS, END, type EventStoreDBClient, type ReadStreamOptions } from "@eventstore/db-client";
import { type DataOf, toStreamName } from "../../../shared/domain/events/category.ts";
import { type ClinicEvent, clinicStreams } from "../../../shared/domain/events/clinic.ts";
import { readStoredEvents } from "../../../shared/eventstore/read-log.ts";
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
 * Reads the first event of a stream. Returns undefined if the stream does not exist.
 *
 * @throws {LogUnavailableError} if the event log cannot be read
 */
export async function readFirstEvent(client: EventStoreDBClient, stream: string): Promise<LogEvent | undefined> {
  return (await readPage(client, stream, { fromRevision: 0n, maxCount: 1 }))[0];
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
 *
 * @returns undefined if the clinic does not exist, or this release cannot read the registration
 * @throws {LogUnavailableError} if the event log cannot be read
 */
export async function readClinicRegistration(
  client: EventStoreDBClient,
  clinicId: string,
): Promise<DataOf<ClinicEvent, "ClinicRegistered"> | undefined> {
  const event = (await readFirstEvent(client, toStreamName(clinicStreams, clinicId)))?.catalogEvent;
  return event?.type === "ClinicRegistered" ? event.data : undefined;
}

async function readPage(client: EventStoreDBClient, stream: string, options: ReadStreamOptions): Promise<LogEvent[]> {
  return (await readStoredEvents(client, stream, options)).map((event) => toLogEvent(event));
}
