import type { Appointment } from "../../shared/domain/appointment/appointment.ts";
import type { Animal } from "../../shared/domain/clinic/animal.ts";
import type { AnimalConsent } from "../../shared/domain/clinic/animal-consent.ts";
import type { Customer } from "../../shared/domain/clinic/customer.ts";
import type { QueueTicket } from "../../shared/domain/clinic/queue-ticket.ts";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import type { DataKeys } from "../../shared/personal-data/data-keys.ts";
import { decryptEvent, findKeysOf, isDecryptionError } from "../../shared/personal-data/decrypt-events.ts";
import { StreamStates } from "../audit/clinic/clinic-history.ts";
import type { IndexedLog } from "../audit/index/read-rows.ts";
import { type LogEvent, toRecordedEvent } from "../audit/log/audit-event.ts";
import { readStreamEvents } from "../audit/log/read-stream.ts";
import { eventsQuery } from "../audit/queries/list-events.ts";
import { getCategoryName } from "../audit/queries/query-fields.ts";

/** An event in a stream of the person, with the time at which the log stored it. */
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
  /** Names of streams from which an operator has deleted all events or the first events. */
  deletedStreams: string[];
  animals: Animal[];
  consents: AnimalConsent[];
  appointments: Appointment[];
  queueTickets: QueueTicket[];
}

/** Categories of the streams with records of a customer. */
const CATEGORIES = ["customer", "animal", "animalConsent", "appointment", "queueTicket"];

/**
 * Finds the streams of a customer's records in the audit index, and reads them from the log. An event that this release
 * cannot read is listed as unreadable, and left out of its record.
 *
 * @throws {LogUnavailableError}
 */
export async function findPersonRecords(
  { client, index, dataKeys }: IndexedLog & { dataKeys: DataKeys },
  clinicId: string,
  customerId: string,
): Promise<PersonRecords> {
  /** Lowest revision of each stream in the index, by stream name. */
  const streams = new Map<string, number>();
  const query = eventsQuery.schema.parse({ customer: customerId });
  const options = { client, index, dataKeys, permittedClinicIds: null };
  for await (const auditEvent of await eventsQuery.run(query, options)) {
    if (!CATEGORIES.includes(getCategoryName(auditEvent.stream)) || auditEvent.clinicId !== clinicId) continue;
    if (!streams.has(auditEvent.stream)) streams.set(auditEvent.stream, auditEvent.revision);
  }
  const states = new StreamStates();
  const personEvents: PersonEvent[] = [];
  const unreadableEvents: UnreadableEvent[] = [];
  const deletedStreams: string[] = [];
  for (const [stream, firstRevision] of streams) {
    let isDeleted = true;
    for await (const logEvent of readStreamEvents(client, stream)) {
      const { revision, storedAt } = logEvent.auditEvent;
      if (revision <= firstRevision) isDeleted = false;
      const event = await revealPersonEvent(logEvent, dataKeys);
      if (!event) unreadableEvents.push({ stream, revision });
      else {
        personEvents.push({ event, storedAt });
        states.add({ auditEvent: logEvent.auditEvent, recorded: event });
      }
    }
    if (isDeleted) deletedStreams.push(stream);
  }
  personEvents.sort((a, b) => Number(a.event.position - b.event.position));
  return {
    customer: states.get<Customer>(`customer-${customerId}`),
    events: personEvents,
    unreadableEvents,
    deletedStreams,
    animals: states.list<Animal>("animal"),
    consents: states.list<AnimalConsent>("animalConsent"),
    appointments: states.list<Appointment>("appointment"),
    queueTickets: states.list<QueueTicket>("queueTicket"),
  };
}

/** Decrypts the personal data of an event. Returns undefined if this release cannot read the event. */
async function revealPersonEvent(logEvent: LogEvent, dataKeys: DataKeys): Promise<RecordedEvent | undefined> {
  const event = toRecordedEvent(logEvent);
  try {
    return event && decryptEvent(event, await findKeysOf([event], dataKeys));
  } catch (error) {
    if (!isDecryptionError(error)) throw error;
    return undefined;
  }
}
