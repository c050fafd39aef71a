import type { EventStoreDBClient } from "@eventstore/db-client";
import { type Appointment, appointmentAggregate } from "../../shared/domain/appointment/appointment.ts";
import { type Animal, animalAggregate } from "../../shared/domain/clinic/animal.ts";
import { type QueueTicket, queueTicketAggregate } from "../../shared/domain/clinic/queue-ticket.ts";
import type { Category } from "../../shared/domain/events/category.ts";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import type { DataKeys } from "../../shared/personal-data/data-keys.ts";
import type { AuditEvent } from "../audit/log/audit-event.ts";
import type { ScanProgress } from "../audit/log/scan.ts";
import { OPERATOR_SCOPE } from "../audit/queries/audit-query.ts";
import { eventsQuery } from "../audit/queries/list-events.ts";
import { getCategoryName } from "../audit/queries/query-fields.ts";

/** An event of one of the person's streams, and the time at which the log stored the event. */
export interface PersonEvent {
  event: RecordedEvent;
  storedAt: string;
}

/** Records that belong to a customer, and the events of their streams in log order. */
export interface PersonRecords {
  events: PersonEvent[];
  animals: Animal[];
  appointments: Appointment[];
  queueTickets: QueueTicket[];
}

interface RecordDependencies {
  log: EventLog;
  client: EventStoreDBClient;
  dataKeys: DataKeys;
  onProgress(progress: ScanProgress): void;
}

/** Categories of the streams that contain data of a customer. */
const PERSON_CATEGORIES = new Set(["customer", "animal", "appointment", "queueTicket"]);

/**
 * Finds the records of a customer in one pass over the log, and reads their streams.
 *
 * @throws {LogUnavailableError}
 */
export async function findPersonRecords(
  { log, client, dataKeys, onProgress }: RecordDependencies,
  clinicId: string,
  customerId: string,
): Promise<PersonRecords> {
  const auditEventsById = new Map<string, AuditEvent>();
  const streams = new Set<string>();
  const query = eventsQuery.schema.parse({ customer: customerId });
  const { signal } = new AbortController();
  const options = { client, dataKeys, ...OPERATOR_SCOPE, signal, onProgress };
  for await (const auditEvent of await eventsQuery.run(query, options)) {
    if (!PERSON_CATEGORIES.has(getCategoryName(auditEvent.stream)) || auditEvent.clinicId !== clinicId) continue;
    streams.add(auditEvent.stream);
    auditEventsById.set(auditEvent.id, auditEvent);
  }
  const recordedEvents: RecordedEvent[] = [];
  for (const stream of streams) recordedEvents.push(...(await log.read<RecordedEvent>(stream)));
  const personEvents = recordedEvents.flatMap((event) => {
    const storedAt = auditEventsById.get(event.id)?.storedAt;
    return storedAt === undefined ? [] : [{ event, storedAt }];
  });
  personEvents.sort((a, b) => Number(a.event.position - b.event.position));
  return {
    events: personEvents,
    animals: foldStreams(animalAggregate, recordedEvents),
    appointments: foldStreams(appointmentAggregate, recordedEvents),
    queueTickets: foldStreams(queueTicketAggregate, recordedEvents),
  };
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
