import { z } from "zod";
import type { Auditor } from "../../../shared/domain/audit/auditor.ts";
import type { AnimalConsent } from "../../../shared/domain/clinic/animal-consent.ts";
import type { Clinic } from "../../../shared/domain/clinic/clinic.ts";
import type { Membership } from "../../../shared/domain/clinic/membership.ts";
import { instant, uuid } from "../../../shared/domain/events/fields.ts";
import type { Installation } from "../../../shared/domain/partner/installation.ts";
import { type Instant, toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { forEachConcurrently } from "../../../shared/runtime/work.ts";
import { accessesQuery, type ClinicAccess } from "../access/list-accesses.ts";
import { isVisible } from "../access/visibility.ts";
import { type RevealedEvent, revealEvent } from "../log/audit-event.ts";
import { readFirstEvent, readKnownEvents } from "../log/read-stream.ts";
import { type AuditQuery, type ReadOptions, StreamNotFoundError } from "../queries/audit-query.ts";
import { exactlyOne, nonEmptyRange } from "../queries/query-fields.ts";
import {
  collectNames,
  type InstalledApplication,
  type Names,
  readApplications,
  readClinicHistory,
  readHistory,
  StreamStates,
} from "./clinic-history.ts";

export const READER_KINDS = ["clinic", "customer", "animal"] as const;

const readersQuerySchema = z
  .strictObject({
    clinic: uuid.optional(),
    customer: uuid.optional(),
    animal: uuid.optional(),
    /** Start of the period, inclusive. */
    from: instant.optional(),
    /** End of the period, exclusive. */
    to: instant.optional(),
  })
  .refine(...exactlyOne(...READER_KINDS))
  .refine(...nonEmptyRange);
type ReadersQuery = z.output<typeof readersQuerySchema>;

/** A person or program that could read the records of a subject, during one span of time. */
export interface Reader {
  kind: "staff" | "application" | "auditor";
  /** Id of the portal user, the application or the auditor. */
  id: string;
  name: string | null;
  /** Descriptions of what grants the access, such as permissions or scopes. */
  access: string[];
  /** Time at which the log stored the event that granted or changed the access. */
  from: Instant;
  /** End of the span; null if the access is still possible. */
  to: Instant | null;
}

export interface Readers {
  readers: Reader[];
  /** The latest recorded accesses of auditors and operators in the period, the newest first. */
  accesses: ClinicAccess[];
  /** False if the period contains earlier accesses that are not in the list. */
  isComplete: boolean;
  /** Descriptions of the events that this release cannot read. If there are any, `readers` can be wrong. */
  problems: string[];
  note: string;
}

const NOTE =
  "Only accesses of auditors and operators are recorded. Reads in the portal, reads of partners, and operators with access to the servers are not in the log. The spans of access start and end when the log stored the events.";

const MAX_ACCESSES = 500;

/**
 * Lists who could read the records of a clinic, a customer or an animal in a period, and the recorded accesses. Uses
 * the current meaning of permissions and scopes, also for past times. Throws the errors of {@link readClinicHistory}.
 */
export const readersQuery: AuditQuery<typeof readersQuerySchema, Readers> = {
  action: "readers",
  schema: readersQuerySchema,
  async run(query, options) {
    const subject = await findSubject(query, options);
    const { events } = await readClinicHistory(subject.clinicId, options);
    const applications = await readApplications(options, events);
    const history = [...events, ...subject.events, ...(await readAuditors(subject.clinicId, options))].sort(
      comparePositions,
    );
    const { spans, problems } = findSpans(subject, history, applications);
    const { from = "", to = toInstant(Date.now()) } = query;
    const readers = spans.filter((reader) => reader.from < to && (reader.to === null || reader.to > from));
    const accesses: ClinicAccess[] = [];
    const page = await accessesQuery.run({ ...query, order: "newest", limit: MAX_ACCESSES }, options);
    let end = await page.next();
    for (; !end.done; end = await page.next()) accesses.push(end.value);
    return { readers, accesses, isComplete: !end.value.next, problems, note: NOTE };
  },
};

interface ReadSubject {
  kind: (typeof READER_KINDS)[number];
  id: string;
  clinicId: string;
  /** The customer, or the owner of the animal; undefined for a clinic. */
  customerId?: string;
  /** Ids of the animals whose links can give applications access. */
  animalIds: string[];
  /** Registrations, erasures of the customer, and consents for the animals. */
  events: RevealedEvent[];
}

const SUBJECT_TYPES = [
  ...["AnimalLinked", "AnimalLinkWithdrawn", "AnimalConsentSummarized", "CustomerRegistered", "CustomerDataErased"],
  ...["AnimalRegistered", "AnimalDetailsChanged", "AnimalWeighed"],
];

/** @throws {StreamNotFoundError} if the subject does not exist, or the reader may not see it */
async function findSubject(query: ReadersQuery, options: ReadOptions): Promise<ReadSubject> {
  if (query.clinic !== undefined)
    return { kind: "clinic", id: query.clinic, clinicId: query.clinic, animalIds: [], events: [] };
  const kind = query.animal === undefined ? "customer" : "animal";
  const id = query[kind] ?? "";
  const first = await readFirstEvent(options, `${kind}-${id}`);
  const data = first?.catalogEvent?.data;
  const isFound = first && isVisible(first.auditEvent, options.permittedClinicIds);
  if (!isFound || !data || !("clinicId" in data) || !("customerId" in data))
    throw new StreamNotFoundError(`${kind}-${id}`);
  const { clinicId, customerId } = data as { clinicId: string; customerId: string };
  const events = await readHistory([id, customerId], SUBJECT_TYPES, options);
  const registrations = events.filter(({ auditEvent: { type } }) => type === "AnimalRegistered");
  const animalIds =
    kind === "animal" ? [id] : registrations.map(({ auditEvent: { stream } }) => stream.slice("animal-".length));
  // An erasure of only the animals ends no access to data that was recorded later.
  const lastChange = events.findLastIndex(({ auditEvent: { stream } }) => stream === `animal-${id}`);
  const isEarlierErasure = ({ auditEvent: { type } }: RevealedEvent, index: number) =>
    index < lastChange && type === "CustomerDataErased";
  const valid = events.filter((event, index) => !isEarlierErasure(event, index));
  return { kind, id, clinicId, customerId, animalIds, events: valid };
}

/** Reads the events of the auditors whose scope includes a clinic. */
async function readAuditors(clinicId: string, options: ReadOptions): Promise<RevealedEvent[]> {
  const events: RevealedEvent[] = [];
  await forEachConcurrently(await options.index.listAuditorStreams(), async (stream) => {
    for await (const logEvent of readKnownEvents(options, stream)) {
      const { catalogEvent } = logEvent;
      const isOther =
        catalogEvent?.type === "AuditorRegistered" && catalogEvent.data.clinicIds?.includes(clinicId) === false;
      if (isOther) return;
      events.push(await revealEvent(logEvent, options.dataKeys));
    }
  });
  return events;
}

const comparePositions = ({ auditEvent: left }: RevealedEvent, { auditEvent: right }: RevealedEvent) =>
  Number(BigInt(left.position) - BigInt(right.position));

/** Facts that determine who has access at a given time. */
interface AccessFacts {
  subject: ReadSubject;
  states: StreamStates;
  names: Names;
  applications: ReadonlyMap<string, InstalledApplication>;
}

type CurrentReader = Omit<Reader, "from" | "to">;

/**
 * Finds the time spans in which a reader's access did not change. Spans start and end at the times of events, or when
 * access expires.
 */
function findSpans(
  subject: ReadSubject,
  history: readonly RevealedEvent[],
  applications: ReadonlyMap<string, InstalledApplication>,
): { spans: Reader[]; problems: string[] } {
  const states = new StreamStates();
  const facts = { subject, states, names: collectNames(history, applications), applications };
  const spans: Reader[] = [];
  const open = new Map<string, Reader>();
  const now = toInstant(Date.now());
  const times = new Set([
    ...history.map(({ auditEvent }) => auditEvent.storedAt),
    ...listExpiries(history, applications),
  ]);
  const events = [...history];
  for (const time of [...times].filter((expiry) => expiry <= now).sort()) {
    while (events[0] && events[0].auditEvent.storedAt <= time) states.add(events.shift() as RevealedEvent);
    const current = new Map(listCurrent(facts, time).map((reader) => [JSON.stringify(reader), reader]));
    for (const [key, span] of open) {
      if (current.has(key)) continue;
      span.to = time;
      open.delete(key);
    }
    for (const [key, reader] of current) {
      if (open.has(key)) continue;
      const span = { ...reader, from: time, to: null };
      open.set(key, span);
      spans.push(span);
    }
  }
  return { spans, problems: states.problems };
}

function listCurrent(facts: AccessFacts, time: Instant): CurrentReader[] {
  const { kind, id, clinicId, customerId } = facts.subject;
  const { states } = facts;
  const clinic = states.get<Clinic>(`clinic-${clinicId}`);
  const isRegistered = kind === "clinic" || states.get(`${kind}-${id}`) !== undefined;
  if (!clinic || !isRegistered) return [];
  const erased = states.get<{ erasedCategories: string[] }>(`customer-${customerId}`)?.erasedCategories ?? [];
  if (erased.includes(kind === "animal" ? "animal" : "contact")) return [];
  const members = isOperational(clinic, time) ? states.list<Membership>("membership") : [];
  return [
    ...members.flatMap((member) => toStaff(facts, member)),
    ...states.list<Installation>("installation").flatMap((installation) => toApplication(facts, installation, time)),
    ...states.list<Auditor>("auditor").flatMap(({ id, name, clinicIds, expiresAt, revoked }) => {
      if (revoked || (expiresAt !== null && expiresAt <= time)) return [];
      const scope = clinicIds === null ? "all clinics" : clinicIds.length === 1 ? "this clinic" : "several clinics";
      const expiry = expiresAt === null ? "no expiry" : `expires at ${expiresAt}`;
      return { kind: "auditor" as const, id, name, access: [scope, expiry] };
    }),
  ];
}

function toStaff({ subject: { kind }, names }: AccessFacts, { status, userId, rights }: Membership): CurrentReader[] {
  if (status !== "active") return [];
  const access = rights.permissions.flatMap((permission) => {
    const text = PERMISSION_TEXTS[permission];
    return text !== undefined && (kind === "clinic" || RECORD_PERMISSIONS.includes(permission)) ? text : [];
  });
  if (kind !== "customer") access.push("queue of the day");
  if (access.length === 0) return [];
  const branches = rights.branchIds.map((id) => names.get(id) ?? id);
  if (rights.branchAccess === "scoped") access.push(`in ${branches.join(", ")}`);
  return [{ kind: "staff", id: userId, name: names.get(userId) ?? null, access }];
}

function toApplication(
  { subject, states, applications }: AccessFacts,
  { applicationId: id, status, scopes, animalAccess }: Installation,
  time: Instant,
): CurrentReader[] {
  const { name = null, revokedAt = null } = applications.get(id) ?? {};
  if (status !== "approved" || (revokedAt !== null && revokedAt <= time)) return [];
  if (subject.kind !== "clinic" && !scopes.some((scope) => RECORD_SCOPES.includes(scope))) return [];
  const access: string[] = [...scopes];
  if (subject.kind === "clinic" || animalAccess === "all") access.push(`${animalAccess} animals`);
  else {
    const links = subject.animalIds.flatMap((animalId) => {
      const link = states.get<AnimalConsent>(`animalConsent-${animalId}`)?.applications[id]?.link;
      return link ? `link ${link.linkId} for ${link.covers}` : [];
    });
    if (links.length === 0) return [];
    access.push(...links);
  }
  return [{ kind: "application", id, name, access }];
}

/** Descriptions of what each permission allows in the portal. */
const PERMISSION_TEXTS: Partial<Record<string, string>> = {
  view_clinical: "view_clinical: customers and animals",
  manage_schedule: "manage_schedule: appointments",
  manage_staff: "manage_staff: staff",
  manage_tenant: "manage_tenant: approves applications",
};

/** Permissions with which a member can see customers and animals in the portal. */
const RECORD_PERMISSIONS: readonly string[] = ["view_clinical", "manage_schedule"];

/** Scopes with which an application can see records of customers and animals. */
const RECORD_SCOPES: readonly string[] = [
  ...["appointments:read", "appointments:write", "animals:link", "webhooks:read", "webhooks:write"],
];

/** Lists the times at which access can end without an event in the history. */
function listExpiries(
  history: readonly RevealedEvent[],
  applications: ReadonlyMap<string, InstalledApplication>,
): Instant[] {
  const expiries = history.map(({ recorded }) => {
    if (typeof recorded === "string") return null;
    const { type, data } = recorded;
    if (type === "ClinicRegistered") return data.demoExpiresAt;
    if (type === "SubscriptionChanged") return data.currentPeriodEnd;
    return type === "AuditorRegistered" ? data.expiresAt : null;
  });
  return [...expiries, ...[...applications.values()].map(({ revokedAt }) => revokedAt)].filter((time) => time !== null);
}

/**
 * Returns true if the portal shows the data of a clinic at a time. A clinic without a subscription must be a demo. A
 * trial or cancelled subscription is valid until the end of its period. An active or past-due subscription remains
 * valid after its period, because a renewal may be late.
 */
export function isOperational({ status, registration, subscription }: Clinic, time: Instant): boolean {
  const { isDemo, demoExpiresAt } = registration;
  if (status !== "active" || (isDemo && demoExpiresAt !== null && demoExpiresAt <= time)) return false;
  if (!subscription) return isDemo;
  const { currentPeriodEnd } = subscription;
  switch (subscription.status) {
    case "active":
    case "past_due":
      return true;
    case "trialing":
      return currentPeriodEnd === null || currentPeriodEnd > time;
    case "cancelled":
      return currentPeriodEnd !== null && currentPeriodEnd > time;
    case "expired":
      return false;
  }
}
