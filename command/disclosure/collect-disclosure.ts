import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import type { Aggregate } from "../../shared/domain/aggregate.ts";
import type { Customer } from "../../shared/domain/clinic/customer.ts";
import { appointmentStreams } from "../../shared/domain/events/appointment.ts";
import { type Category, toStreamName } from "../../shared/domain/events/category.ts";
import { customerStreams } from "../../shared/domain/events/people.ts";
import { EventSchemaError } from "../../shared/domain/events/stored-event.ts";
import { applicationAggregate } from "../../shared/domain/partner/application.ts";
import { endpointAggregate } from "../../shared/domain/partner/webhook-endpoint.ts";
import { isErased } from "../../shared/domain/personal-data/erasure.ts";
import { requireExisting, requireOwnedBy } from "../../shared/domain/preconditions.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { concernsOneStream } from "../../shared/eventstore/stream-failure.ts";
import type { DataKeys } from "../../shared/personal-data/data-keys.ts";
import { isDecryptionError } from "../../shared/personal-data/decrypt-events.ts";
import { accessesQuery, readAuditorName } from "../audit/access/list-accesses.ts";
import { recordAccess } from "../audit/access/record-access.ts";
import { readClinicRegistration, readFirstEvent } from "../audit/log/read-stream.ts";
import type { ScanProgress } from "../audit/log/scan.ts";
import { OPERATOR_SCOPE } from "../audit/queries/audit-query.ts";
import { type CommandContext, loadAggregate } from "../handling/handle.ts";
import {
  DISCLOSURE_LIMITS,
  type DisclosedAccess,
  type DisclosedActor,
  type DisclosedDelivery,
  type Disclosure,
} from "./disclosure.ts";
import { createExtentFinder } from "./person-accesses.ts";
import { findAppointmentDeliveries } from "./person-deliveries.ts";
import { findPersonRecords, type PersonRecords } from "./person-records.ts";

interface DisclosureDependencies {
  log: EventLog;
  client: EventStoreDBClient;
  dataKeys: DataKeys;
  pool: pg.Pool;
  onProgress(progress: ScanProgress): void;
}

/**
 * Collects everything held about a customer, who saw it, and who received it. Records the disclosure before it returns
 * any data.
 *
 * @throws {DomainError} `clinic_not_found`, `customer_not_found`
 * @throws {LogUnavailableError | ServerUnavailableError}
 */
export async function collectDisclosure(
  dependencies: DisclosureDependencies,
  { clinicId, customerId }: { clinicId: string; customerId: string },
  context: CommandContext,
): Promise<Disclosure> {
  const { log, client, pool } = dependencies;
  const { name, timezone } = requireExisting(await readClinicRegistration(client, clinicId), "clinic");
  await requireCustomer(client, clinicId, customerId);
  const query = { clinic: clinicId, customer: customerId };
  const access = { auditorId: null, action: "disclose", query, found: [customerId] } as const;
  const id = await recordAccess(log, access, context);
  const records = await findPersonRecords(dependencies, clinicId, customerId);
  const customer = requireExisting(records.customer, "customer");
  const names = createNameFinder(log);
  return {
    format: "clinic-service/disclosure/1",
    id,
    createdAt: toInstant(context.now),
    createdBy: await names.describeActor(context.actor),
    clinic: { id: clinicId, name, timezone },
    customer: { id: customerId, ...customer.details, erasedCategories: customer.erasedCategories },
    ...(await describeRecords(records, names)),
    consents: isErased(customer) ? [] : await describeConsents(records, names),
    accesses: await findAccesses(dependencies, customer, records, names),
    deliveries: await describeDeliveries(pool, clinicId, records, names),
    limits: [...DISCLOSURE_LIMITS, ...describeLostData(records), ...describeMissingEvents(records)],
  };
}

function describeLostData({ events }: PersonRecords): string[] {
  const lostCount = events.filter(({ event }) => event.isKeyMissing).length;
  if (lostCount === 0) return [];
  const changes = lostCount === 1 ? "1 change" : `${lostCount} changes`;
  return [`The personal data of ${changes} is unreadable, because its data keys are missing.`];
}

function describeMissingEvents({ unreadableEvents, deletedStreams }: PersonRecords): string[] {
  const deletions = deletedStreams.map(
    (stream) => `Events of ${stream} are not included, because they were deleted from the event log.`,
  );
  const unreadable = unreadableEvents.map(
    ({ stream, revision }) =>
      `Revision ${revision} of ${stream} is not included, because this release cannot read it. Data of this record may be missing or outdated.`,
  );
  return [...deletions, ...unreadable];
}

/**
 * Requires that the customer belongs to the clinic.
 *
 * @throws {DomainError} `customer_not_found`
 * @throws {EventSchemaError} if this release cannot read the customer's registration
 */
async function requireCustomer(client: EventStoreDBClient, clinicId: string, customerId: string): Promise<void> {
  const firstEvent = await readFirstEvent(client, toStreamName(customerStreams, customerId));
  const problem = firstEvent?.auditEvent.problem;
  if (problem !== undefined) throw new EventSchemaError(problem);
  const { catalogEvent } = firstEvent ?? {};
  requireOwnedBy(clinicId, catalogEvent?.type === "CustomerRegistered" ? catalogEvent.data : undefined, "customer");
}

type ActorRef = { type: string; id: string; note?: string | undefined };

type NameFinder = ReturnType<typeof createNameFinder>;

async function describeRecords(records: PersonRecords, names: NameFinder) {
  const animals = records.animals.map(({ id, details, weightKg }) => ({ id, ...details, weightKg }));
  const appointments: Disclosure["appointments"] = [];
  for (const { applicationId, ...appointment } of records.appointments) {
    const { id, scheduledAt, durationMinutes, status, reason, notes, animalId, branchId } = appointment;
    const application =
      applicationId === null ? null : { id: applicationId, name: await names.findApplicationName(applicationId) };
    const times = { scheduledAt, durationMinutes };
    appointments.push({ id, ...times, status, reason, notes, animalId, branchId, application });
  }
  const queueTickets = records.queueTickets.map(({ id, status, issue }) => {
    const { ticketNumber: number, queueDate: date, notes, appointmentId, animalId } = issue;
    return { id, number, date, status, notes, appointmentId, animalId };
  });
  const changes: Disclosure["changes"] = [];
  for (const { event, storedAt } of records.events) {
    const { id: eventId, type, stream, revision, metadata, data } = event;
    const actor = await names.describeActor(metadata.actor);
    const times = { occurredAt: metadata.occurredAt, storedAt };
    changes.push({ eventId, ...times, type, stream, revision: Number(revision), actor, data });
  }
  return { animals, appointments, queueTickets, changes };
}

async function describeConsents({ consents }: PersonRecords, names: NameFinder): Promise<Disclosure["consents"]> {
  const disclosedConsents: Disclosure["consents"] = [];
  for (const { id: animalId, applications } of consents) {
    for (const [id, { link }] of Object.entries(applications)) {
      if (!link) continue;
      const application = { id, name: await names.findApplicationName(id) };
      disclosedConsents.push({ animalId, application, covers: link.covers, grantedAt: link.linkedAt });
    }
  }
  return disclosedConsents;
}

async function findAccesses(
  { client, dataKeys, onProgress }: DisclosureDependencies,
  customer: Customer,
  records: PersonRecords,
  names: NameFinder,
): Promise<DisclosedAccess[]> {
  const { animals, appointments, queueTickets } = records;
  const recordIds = new Set([customer, ...animals, ...appointments, ...queueTickets].map(({ id }) => id));
  const findExtent = createExtentFinder(recordIds, records.events);
  const query = accessesQuery.schema.parse({ clinic: customer.clinicId });
  const { signal } = new AbortController();
  const accesses: DisclosedAccess[] = [];
  const options = { client, dataKeys, ...OPERATOR_SCOPE, signal, onProgress };
  for await (const access of await accessesQuery.run(query, options)) {
    const extent = findExtent(access);
    if (extent === undefined || access.actor === null) continue;
    const { accessId: id, at, action } = access;
    accesses.push({
      id,
      at,
      actor: await names.describeActor(access.actor),
      action,
      extent,
      query: access.asked ?? {},
    });
  }
  return accesses;
}

async function describeDeliveries(
  pool: pg.Pool,
  clinicId: string,
  { appointments }: PersonRecords,
  names: NameFinder,
): Promise<DisclosedDelivery[]> {
  const streamNames = new Map(appointments.map(({ id }) => [toStreamName(appointmentStreams, id), id]));
  const deliveries: DisclosedDelivery[] = [];
  for (const delivery of await findAppointmentDeliveries(pool, clinicId, [...streamNames.keys()])) {
    const { id, applicationId, endpointId, stream, createdAt, type, status, lastAttempt } = delivery;
    const appointmentId = streamNames.get(stream);
    if (appointmentId === undefined) continue;
    const application = { id: applicationId, name: await names.findApplicationName(applicationId) };
    const endpointOrigin = await names.findEndpointOrigin(endpointId);
    deliveries.push({ id, createdAt, application, endpointOrigin, type, appointmentId, status, lastAttempt });
  }
  return deliveries;
}

/** Returns the state of an aggregate. Returns undefined if it does not exist, or its stream cannot be read. */
async function loadReadable<C extends Category, State>(log: EventLog, aggregate: Aggregate<C, State>, id: string) {
  try {
    return (await loadAggregate(log, aggregate, id)).state;
  } catch (error) {
    if (isDecryptionError(error) || (await concernsOneStream(log, error))) return undefined;
    throw error;
  }
}

function createNameFinder(log: EventLog) {
  const namePromises = new Map<string, Promise<string | null>>();
  const remember = (key: string, findName: () => Promise<string | null>) => {
    const namePromise = namePromises.get(key) ?? findName();
    namePromises.set(key, namePromise);
    return namePromise;
  };
  const findApplicationName = (id: string) =>
    remember(`application ${id}`, async () => (await loadReadable(log, applicationAggregate, id))?.name ?? null);
  const findAuditorName = (id: string) => remember(`auditor ${id}`, () => readAuditorName(log, id));
  const findEndpointOrigin = (id: string) =>
    remember(`endpoint ${id}`, async () => {
      const state = await loadReadable(log, endpointAggregate, id);
      return state ? new URL(state.url).origin : null;
    });
  const findActorName = ({ type, id }: ActorRef) => {
    if (type === "application") return findApplicationName(id);
    return type === "auditor" ? findAuditorName(id) : null;
  };
  const describeActor = async (actor: ActorRef): Promise<DisclosedActor> => {
    const { type, id, note = null } = actor;
    return { type, id, name: await findActorName(actor), note };
  };
  return { findApplicationName, findEndpointOrigin, describeActor };
}
