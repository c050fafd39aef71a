import type pg from "pg";
import type { z } from "zod";
import { toStreamName } from "../../shared/domain/events/category.ts";
import { customerStreams } from "../../shared/domain/events/people.ts";
import { EventSchemaError } from "../../shared/domain/events/stored-event.ts";
import { applicationAggregate } from "../../shared/domain/partner/application.ts";
import { endpointAggregate } from "../../shared/domain/partner/webhook-endpoint.ts";
import { isErased } from "../../shared/domain/personal-data/erasure.ts";
import { findPersonalFields } from "../../shared/domain/personal-data/personal-fields.ts";
import { requireExisting, requireOwnedBy } from "../../shared/domain/preconditions.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { publicAppointment, publicLink } from "../../shared/partner-api/records.ts";
import { appointmentBody } from "../../shared/partner-api/webhook-body.ts";
import type { DataKeys } from "../../shared/personal-data/data-keys.ts";
import { accessesQuery, loadReadable, readAuditorName, remember } from "../audit/access/list-accesses.ts";
import { recordAccess } from "../audit/access/record-access.ts";
import type { IndexedLog } from "../audit/index/read-rows.ts";
import { readClinicRegistration, readFirstEvent } from "../audit/log/read-stream.ts";
import type { CommandContext } from "../handling/handle.ts";
import { findPersonRecords, type PersonEvent, type PersonRecords } from "./person-records.ts";

interface DisclosureDependencies extends IndexedLog {
  log: EventLog;
  dataKeys: DataKeys;
  pool: pg.Pool;
}

/**
 * All data about a customer, and a list of who saw or received the data. Includes the names of applications and actors.
 */
export type Disclosure = Awaited<ReturnType<typeof collectDisclosure>>;

/**
 * Collects all data about a customer, and a list of who saw or received the data. Records the disclosure before it
 * returns any data.
 *
 * @throws {DomainError} `clinic_not_found`, `customer_not_found`
 * @throws {LogUnavailableError}
 */
export async function collectDisclosure(
  dependencies: DisclosureDependencies,
  { clinicId, customerId }: { clinicId: string; customerId: string },
  context: CommandContext,
) {
  const { log, pool } = dependencies;
  const { name, timezone } = requireExisting(await readClinicRegistration(dependencies, clinicId), "clinic");
  await requireCustomer(dependencies, clinicId, customerId);
  const query = { clinic: clinicId, customer: customerId };
  const access = { auditorId: null, action: "disclose", query, found: [customerId] } as const;
  const id = await recordAccess(log, access, context);
  const records = await findPersonRecords(dependencies, clinicId, customerId);
  const customer = requireExisting(records.customer, "customer");
  const names = createNameFinder(log);
  return {
    format: "clinic-service/disclosure/1",
    /** Id of the recorded access, which also identifies the disclosure. */
    id,
    createdAt: toInstant(context.now),
    createdBy: await names.describeActor(context.actor),
    clinic: { id: clinicId, name, timezone },
    customer: { id: customerId, ...customer.details, erasedCategories: customer.erasedCategories },
    animals: records.animals.map(({ id, details, weightKg }) => ({ id, ...details, weightKg })),
    /** Valid consents to share an animal. `changes` also contains earlier consents and link codes. */
    consents: isErased(customer) ? [] : await describeConsents(records, names),
    appointments: await describeAll(records.appointments, async (appointment) => {
      const { id, scheduledAt, durationMinutes, status, animalId, branchId, applicationId } = appointment;
      const texts = selectPersonal("AppointmentRequested", appointment);
      // The application that requested the appointment has received it as the response.
      const application = applicationId === null ? null : await names.describeApplication(applicationId);
      return { id, scheduledAt, durationMinutes, status, animalId, branchId, ...texts, application };
    }),
    queueTickets: records.queueTickets.map(({ id, status, issue }) => {
      const { queueDate, ticketNumber, animalId, appointmentId } = issue;
      const texts = selectPersonal("QueueTicketIssued", issue);
      return { id, queueDate, ticketNumber, status, animalId, appointmentId, ...texts };
    }),
    changes: await describeAll(records.events, async ({ event, storedAt }) => {
      const { id: eventId, type, stream, revision, data, metadata } = event;
      const actor = await names.describeActor(metadata.actor);
      const { occurredAt } = metadata;
      return { eventId, occurredAt, storedAt, type, stream, revision: Number(revision), actor, data };
    }),
    accesses: await describeAccesses(dependencies, customerId, records, names),
    deliveries: await describeAll(
      await readDeliveries(pool, clinicId, records),
      async ({ applicationId, endpointId, ...delivery }) => ({
        ...delivery,
        application: await names.describeApplication(applicationId),
        endpointOrigin: await names.findEndpointOrigin(endpointId),
      }),
    ),
    limits: [...DISCLOSURE_LIMITS, ...describeLostData(records), ...describeMissingEvents(records)],
  };
}

/** Describes items one after another. Omits items whose description is undefined. */
async function describeAll<Item, Description>(
  items: Iterable<Item> | AsyncIterable<Item>,
  describe: (item: Item) => Promise<Description | undefined>,
): Promise<Description[]> {
  const descriptions: Description[] = [];
  for await (const item of items) {
    const description = await describe(item);
    if (description !== undefined) descriptions.push(description);
  }
  return descriptions;
}

/** Selects the fields that an event type declares as personal data. Derived fields, such as hashes, are left out. */
function selectPersonal(type: string, values: object): Record<string, string | null> {
  const fields = findPersonalFields(type)?.fields.filter(({ isDerived }) => !isDerived) ?? [];
  return Object.fromEntries(fields.map(({ name }) => [name, values[name as keyof typeof values]]));
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
async function requireCustomer(indexedLog: IndexedLog, clinicId: string, customerId: string): Promise<void> {
  const firstEvent = await readFirstEvent(indexedLog, toStreamName(customerStreams, customerId));
  const problem = firstEvent?.auditEvent.problem;
  if (problem !== undefined) throw new EventSchemaError(problem);
  const { catalogEvent } = firstEvent ?? {};
  requireOwnedBy(clinicId, catalogEvent?.type === "CustomerRegistered" ? catalogEvent.data : undefined, "customer");
}

type NameFinder = ReturnType<typeof createNameFinder>;

async function describeConsents({ consents }: PersonRecords, names: NameFinder) {
  const links = consents.flatMap(({ id: animalId, applications }) =>
    Object.entries(applications).flatMap(([id, { link }]) => (link ? [{ animalId, id, ...link }] : [])),
  );
  return describeAll(links, async ({ animalId, id, covers, linkedAt: grantedAt }) => {
    return { animalId, application: await names.describeApplication(id), covers, grantedAt };
  });
}

/**
 * Lists the accesses to data of the customer. The `extent` of an access is one of:
 * - `individual`: the query named one of the customer's records, or the response contained one.
 * - `export`: the exported file contains events of the customer.
 * - `possible`: the query covered more than the customer, and the response may have contained the customer's data.
 */
async function describeAccesses(
  { client, index, dataKeys }: DisclosureDependencies,
  customerId: string,
  { events }: PersonRecords,
  names: NameFinder,
) {
  const options = { client, index, dataKeys, permittedClinicIds: null };
  const accesses = await accessesQuery.run(accessesQuery.schema.parse({ customer: customerId }), options);
  return describeAll(accesses, async ({ accessId: id, at, actor, action, relation, asked }) => {
    const query = asked ?? {};
    const isExport = action === "export";
    if (actor === null || (isExport && !isAnyEventExported(events, query, at))) return undefined;
    const extent = isExport ? "export" : relation === "certain" ? "individual" : "possible";
    return { id, at, actor: await names.describeActor(actor), action, extent, query };
  });
}

/**
 * Returns true if an export of the clinic contains at least one of the events. An export selects events by the time at
 * which the log stored them.
 *
 * @param exportedAt end of the export's time range if the query has no `to`
 */
function isAnyEventExported(
  events: readonly PersonEvent[],
  { from, to }: Record<string, unknown>,
  exportedAt: string,
): boolean {
  const startMs = typeof from === "string" ? Date.parse(from) : Number.NEGATIVE_INFINITY;
  const endMs = Date.parse(typeof to === "string" ? to : exportedAt);
  return events.some(({ storedAt }) => Date.parse(storedAt) >= startMs && Date.parse(storedAt) < endMs);
}

interface Delivery {
  id: string;
  createdAt: string;
  applicationId: string;
  endpointId: string;
  type: string;
  appointmentId: string;
  status: string;
  /** Null if there was no attempt. */
  lastAttempt: { startedAt: string; statusCode: number | null } | null;
}

/** Selects deliveries. $1: id of the clinic. $2: ids of the appointments. */
const DELIVERIES_SQL = `SELECT d.delivery_id AS id, d.application_id AS "applicationId", d.endpoint_id AS "endpointId",
    d.event_type AS type, d.appointment_id AS "appointmentId", d.status, rfc3339(d.created_at) AS "createdAt",
    (SELECT json_build_object('startedAt', rfc3339(a.started_at), 'statusCode', a.status_code)
       FROM webhooks.attempt a WHERE a.delivery_id = d.delivery_id ORDER BY a.number DESC LIMIT 1) AS "lastAttempt"
  FROM webhooks.delivery d
  WHERE d.clinic_id = $1 AND d.appointment_id = ANY ($2::uuid[])
  ORDER BY d.created_at, d.delivery_id`;

/** Reads the webhook deliveries about the customer's appointments, oldest first. */
async function readDeliveries(pool: pg.Pool, clinicId: string, { appointments }: PersonRecords): Promise<Delivery[]> {
  return (await pool.query<Delivery>(DELIVERIES_SQL, [clinicId, appointments.map(({ id }) => id)])).rows;
}

function createNameFinder(log: EventLog) {
  const findAuditorName = remember((id) => readAuditorName(log, id));
  const findApplicationName = remember(async (id) => (await loadReadable(log, applicationAggregate, id))?.name ?? null);
  return {
    /** Returns the id and the name of an application. The name is null if the application's stream cannot be read. */
    describeApplication: async (id: string) => ({ id, name: await findApplicationName(id) }),
    /** Returns scheme, host and port of an endpoint's URL; null if the endpoint's stream cannot be read. */
    findEndpointOrigin: remember(async (id) => {
      const state = await loadReadable(log, endpointAggregate, id);
      return state ? new URL(state.url).origin : null;
    }),
    /**
     * Describes an actor. The name is null if it is unknown, or if the actor is neither an application nor an auditor.
     */
    async describeActor({ type, id, note = null }: { type: string; id: string; note?: string | null | undefined }) {
      const findName = { application: findApplicationName, auditor: findAuditorName }[type];
      return { type, id, name: (await findName?.(id)) ?? null, note };
    },
  };
}

/** Lists the fields of a record in words, for example `clinic id, scheduled at`. */
const listFields = ({ shape }: z.ZodObject): string =>
  Object.keys(shape)
    .map((name) => name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`))
    .join(", ");

/** Sentences that tell the reader what the disclosure does not list. */
const DISCLOSURE_LIMITS = [
  "Reads by users of the clinic's portal are not recorded individually. The clinic's staff can see customers, animals, appointments and the queue, as far as their permissions allow.",
  `Reads by partner applications are not recorded individually. An application that is installed at the clinic can read of an appointment: ${listFields(publicAppointment.schema)}. Of an animal that a link code shares with it, it can read: ${listFields(publicLink.schema.shape.animal)}.`,
  `A webhook contains of an appointment: ${listFields(appointmentBody.shape.data.shape.appointment)}, and how they changed. Finished deliveries are deleted after 30 days, so earlier deliveries are not listed.`,
  "A possible access is a query about the whole clinic, an application or a request. The log does not record whether its response contained data of this person.",
  "Backups of the event log and of the database contain the same data until they are deleted.",
];
