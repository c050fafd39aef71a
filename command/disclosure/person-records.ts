import type { EventStoreDBClient } from "@eventstore/db-client";
import { type Appointment, appointmentAggregate } from "../../shared/domain/appointment/appointment.ts";
import { type Animal, animalAggregate } from "../../shared/domain/clinic/animal.ts";
import { type AnimalConsent, animalConsentAggregate } from "../../shared/domain/clinic/animal-consent.ts";
import { type Customer, customerAggregate } from "../../shared/domain/clinic/customer.ts";
import { type QueueTicket, queueTicketAggregate } from "../../shared/domain/clinic/queue-ticket.ts";
import type { Category } from "../../shared/domain/events/category.ts";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import type { DataKeys } from "../../shared/personal-data/data-keys.ts";
import { decryptEvent, findKeysOf, isDecryptionError } from "../../shared/personal-data/decrypt-events.ts";
import { type LogEvent, toRecordedEvent } from "../audit/log/audit-event.ts";
import { readStreamEvents } from "../audit/log/read-stream.ts";
import type { ScanProgress } from "../audit/log/scan.ts";
import { OPERATOR_SCOPE } from "../audit/queries/audit-query.ts";
import { eventsQuery } from "../audit/queries/list-events.ts";
import { getCategoryName } from "../audit/queries/query-fields.ts";

/** An event of one of the person's streams, and the time at which the log stored the event. */
export interface PersonEvent {
  event: RecordedEvent;
  storedAt: string;
}

/** An event that this release cannot read, for example because a newer release wrote it. */
interface UnreadableEvent {
  stream: string;
  revision: number;
}

/** Records that belong to a customer, and the events of their streams in log order. */
export interface PersonRecords {
  customer: Customer | undefined;
  events: PersonEvent[];
  unreadableEvents: UnreadableEvent[];
  /** Streams of which an operator has deleted all events or the first events. */
  deletedStreams: string[];
  animals: Animal[];
  consents: AnimalConsent[];
  appointments: Appointment[];
  queueTickets: QueueTicket[];
}

interface RecordDependencies {
  client: EventStoreDBClient;
  dataKeys: DataKeys;
  onProgress(progress: ScanProgress): void;
}

/** Categories of the streams that contain data of a customer. */
const PERSON_CATEGORIES = new Set(["customer", "animal", "animalConsent", "appointment", "queueTicket"]);

/**
 * Finds the records of a customer in one pass over the log, and reads their streams. Events that this release cannot
 * read are listed, and the records are folded without them.
 *
 * @throws {LogUnavailableError}
 */
export async function findPersonRecords(
  { client, dataKeys, onProgress }: RecordDependencies,
  clinicId: string,
  customerId: string,
): Promise<PersonRecords> {
  /** First revision of each stream. */
  const streams = new Map<string, number>();
  const query = eventsQuery.schema.parse({ customer: customerId });
  const { signal } = new AbortController();
  const options = { client, dataKeys, ...OPERATOR_SCOPE, signal, onProgress };
  for await (const auditEvent of await eventsQuery.run(query, options)) {
    if (!PERSON_CATEGORIES.has(getCategoryName(auditEvent.stream)) || auditEvent.clinicId !== clinicId) continue;
    if (!streams.has(auditEvent.stream)) streams.set(auditEvent.stream, auditEvent.revision);
  }
  const personEvents: PersonEvent[] = [];
  const unreadableEvents: UnreadableEvent[] = [];
  const deletedStreams: string[] = [];
  for (const [stream, firstRevision] of streams) {
    let isDeleted = true;
    for await (const logEvent of readStreamEvents(client, stream)) {
      const { revision, storedAt } = logEvent.auditEvent;
      if (revision <= firstRevision) isDeleted = false;
      const event = await revealEvent(logEvent, dataKeys);
      if (event) personEvents.push({ event, storedAt });
      else unreadableEvents.push({ stream, revision });
    }
    if (isDeleted) deletedStreams.push(stream);
  }
  const recordedEvents = personEvents.map(({ event }) => event);
  personEvents.sort((a, b) => Number(a.event.position - b.event.position));
  return {
    customer: foldStreams<Customer>(customerAggregate, recordedEvents)[0],
    events: personEvents,
    unreadableEvents,
    deletedStreams,
    animals: foldStreams(animalAggregate, recordedEvents),
    consents: foldStreams(animalConsentAggregate, recordedEvents),
    appointments: foldStreams(appointmentAggregate, recordedEvents),
    queueTickets: foldStreams(queueTicketAggregate, recordedEvents),
  };
}

/** Returns an event with its personal data. Returns undefined if this release cannot read the event. */
async function revealEvent(logEvent: LogEvent, dataKeys: DataKeys): Promise<RecordedEvent | undefined> {
  const event = toRecordedEvent(logEvent);
  try {
    return event && decryptEvent(event, await findKeysOf([event], dataKeys));
  } catch (error) {
    if (!isDecryptionError(error)) throw error;
    return undefined;
  }
}

function foldStreams<State>(
  { category, evolve }: { category: Category; evolve: unknown },
  events: readonly RecordedEvent[],
): State[] {
  const fold = evolve as (state: State | undefined, event: RecordedEvent) => State | undefined;
  const states = new Map<string, State | undefined>();
  for (const event of events) {
    if (getCategoryName(event.stream) === category.name)
      states.set(event.stream, fold(states.get(event.stream), event));
  }
  return [...states.values()].filter((state) => state !== undefined);
}
