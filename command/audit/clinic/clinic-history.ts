import { z } from "zod";
import { clinicStreams } from "../../../shared/domain/events/clinic.ts";
import { calendarDate, instant } from "../../../shared/domain/events/fields.ts";
import { installationStreams } from "../../../shared/domain/events/partner.ts";
import { membershipStreams, staffStreams } from "../../../shared/domain/events/people.ts";
import { fromLocalTime } from "../../../shared/domain/time/local-time.ts";
import { type Instant, toInstantInRange } from "../../../shared/domain/time/rfc3339.ts";
import { forEachConcurrently } from "../../../shared/runtime/work.ts";
import { isVisible } from "../access/visibility.ts";
import { type IndexedLog, readIndexedEvents } from "../index/read-rows.ts";
import { type RevealedEvent, revealEvent } from "../log/audit-event.ts";
import { readClinicRegistration, readKnownEvents } from "../log/read-stream.ts";
import { type ReadOptions, StreamNotFoundError } from "../queries/audit-query.ts";
import { toSubjectKey } from "../queries/query-fields.ts";
import { getFold } from "../state/replay.ts";

const LOCAL_TIME = /^(\d{4}-\d\d-\d\d)(?:[ T]((?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d)?))?$/;

/** A date, or a date and time, in the clinic's time zone; or a date-time with an offset. */
export const clinicTimeField = z.string().refine((text) => {
  const date = LOCAL_TIME.exec(text)?.[1];
  return (date === undefined ? instant : calendarDate).safeParse(date ?? text).success;
}, "must be a time such as 2026-11-28 10:00, or a date-time with an offset");

/** Converts a value of {@link clinicTimeField} to an instant. A date without a time means the start of the day. */
export function toClinicInstant(text: string, timeZone: string): Instant {
  const [, date, time = "00:00"] = LOCAL_TIME.exec(text) ?? [];
  if (date === undefined) return instant.parse(text);
  return toInstantInRange(fromLocalTime(timeZone, date, time)) ?? `${date}T00:00:00.000Z`;
}

/** Types of the events that change a clinic, its members, staff, installations or resources. */
const TYPES = [
  ...[clinicStreams, membershipStreams, staffStreams, installationStreams].flatMap(({ events }) => Object.keys(events)),
  ...["ResourceAdded", "ResourceRetired", "SandboxReset"],
];

/**
 * Reads the events of a clinic, its members, staff, resources and installations, in log order.
 *
 * @throws {StreamNotFoundError} if the clinic does not exist, or the reader may not see it
 * @throws {DifferentLogError}
 * @throws {IndexBehindError}
 * @throws {LogUnavailableError}
 */
export async function readClinicHistory(
  clinicId: string,
  options: ReadOptions,
): Promise<{ timeZone: string; events: RevealedEvent[] }> {
  const events = await readHistory([toSubjectKey({ kind: "clinic", id: clinicId })], TYPES, options);
  if (events.length === 0) throw new StreamNotFoundError(`clinic-${clinicId}`);
  const registration = await readClinicRegistration(options, clinicId);
  return { timeZone: registration?.timezone ?? "UTC", events };
}

/**
 * Reads the visible events that have one of the types and one of the index keys, in log order. Throws the errors of
 * {@link readClinicHistory}, except {@link StreamNotFoundError}.
 */
export async function readHistory(
  keys: readonly string[],
  types: readonly string[],
  options: ReadOptions,
): Promise<RevealedEvent[]> {
  const { client, index, dataKeys, permittedClinicIds: clinicIds } = options;
  const before = (await index.awaitLogEnd(client)) + 1n;
  const events: RevealedEvent[] = [];
  for await (const logEvent of readIndexedEvents(options, { keys, types, before, clinicIds }))
    if (isVisible(logEvent.auditEvent, clinicIds)) events.push(await revealEvent(logEvent, dataKeys));
  return events;
}

/** States of streams, by stream name. Events that this release cannot read are skipped and listed in `problems`. */
export class StreamStates {
  readonly problems: string[] = [];
  readonly #states = new Map<string, unknown>();

  /** Adds the next event of a stream. An event that this release cannot read does not change the state. */
  add({ auditEvent: { stream, revision, problem }, recorded }: RevealedEvent): void {
    if (problem !== undefined) this.problems.push(`${stream} @ ${revision}: ${problem}`);
    if (typeof recorded !== "string") this.#states.set(stream, getFold(stream)(this.#states.get(stream), recorded));
  }

  get<State>(stream: string): State | undefined {
    return this.#states.get(stream) as State | undefined;
  }

  /** Lists the states of the streams of a category, in the order of their first events. */
  list<State>(category: string): State[] {
    return [...this.#states].flatMap(([stream, state]) =>
      stream.startsWith(`${category}-`) && state !== undefined ? [state as State] : [],
    );
  }
}

export interface InstalledApplication {
  name: string | null;
  /** Time at which the log stored the revocation; null if the application is not revoked. */
  revokedAt: Instant | null;
}

/** Reads the applications that were ever installed at a clinic, by id. */
export async function readApplications(
  log: IndexedLog,
  history: readonly RevealedEvent[],
): Promise<Map<string, InstalledApplication>> {
  const applications = new Map<string, InstalledApplication>();
  for (const { recorded } of history) {
    if (typeof recorded === "string" || !("applicationId" in recorded.data)) continue;
    const { applicationId } = recorded.data;
    if (typeof applicationId === "string") applications.set(applicationId, { name: null, revokedAt: null });
  }
  await forEachConcurrently(applications, async ([id, application]) => {
    for await (const { auditEvent, catalogEvent } of readKnownEvents(log, `partnerApplication-${id}`)) {
      if (catalogEvent?.type === "ApplicationRegistered") application.name = catalogEvent.data.name;
      if (catalogEvent?.type === "ApplicationRevoked") application.revokedAt ??= auditEvent.storedAt;
    }
  });
  return applications;
}

/** Names of staff members, users, memberships, branches, resources, applications and installations, by id. */
export type Names = ReadonlyMap<string, string>;

/**
 * Finds the names in the events of a clinic. A membership has the name of its user, and a user has the name of the
 * linked staff member.
 */
export function collectNames(
  history: readonly RevealedEvent[],
  applications: ReadonlyMap<string, InstalledApplication>,
): Names {
  const names = new Map<string, string>();
  const aliases: [id: string, namedId: string][] = [];
  for (const [id, { name }] of applications) if (name !== null) names.set(id, name);
  for (const { recorded } of history) {
    if (typeof recorded === "string") continue;
    const { type, data } = recorded;
    if (type === "BranchOpened") names.set(data.branchId, data.name);
    if (type === "ResourceAdded") names.set(data.resourceId, data.name);
    if (type === "StaffMemberHired" && data.fullName !== null) names.set(data.staffId, data.fullName);
    if (type === "StaffMemberHired" && data.userId !== null) aliases.unshift([data.userId, data.staffId]);
    if (type === "MembershipGranted" && data.staffId !== null) aliases.unshift([data.userId, data.staffId]);
    if (type === "MembershipGranted") aliases.push([data.membershipId, data.userId]);
    if (type === "InstallationRequested") aliases.push([data.installationId, data.applicationId]);
    if (type === "InstallationApproved") aliases.push([data.installationId, data.applicationId]);
  }
  for (const [id, namedId] of aliases) {
    const name = names.get(namedId);
    if (name !== undefined) names.set(id, name);
  }
  return names;
}
