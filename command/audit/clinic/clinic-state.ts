import { z } from "zod";
import type { Clinic } from "../../../shared/domain/clinic/clinic.ts";
import type { Membership } from "../../../shared/domain/clinic/membership.ts";
import type { Resource } from "../../../shared/domain/clinic/resource.ts";
import { uuid } from "../../../shared/domain/events/fields.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import type { Installation } from "../../../shared/domain/partner/installation.ts";
import { findFixtureResource, type Sandbox } from "../../../shared/domain/partner/sandbox.ts";
import { type Instant, toInstant } from "../../../shared/domain/time/rfc3339.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import type { AuditQuery } from "../queries/audit-query.ts";
import { getEventTime, timeBasisField } from "../queries/query-fields.ts";
import {
  clinicTimeField,
  collectNames,
  type Names,
  readApplications,
  readClinicHistory,
  StreamStates,
  toClinicInstant,
} from "./clinic-history.ts";

const clinicStateQuerySchema = z.strictObject({ clinic: uuid, at: clinicTimeField.optional(), by: timeBasisField });

interface ClinicChange extends Pick<AuditEvent, "position" | "stream" | "actor"> {
  at: string;
  /** Sentence that describes the change, without the actor. */
  text: string;
}

export interface ClinicState extends ReturnType<typeof describeState> {
  at: Instant;
  timeZone: string;
  /** Changes after `at`, oldest first. */
  changes: ClinicChange[];
  /** False if there are more changes than those in `changes`. */
  isComplete: boolean;
  /** Descriptions of the events that this release cannot read. The state does not include these events. */
  problems: string[];
}

const MAX_CHANGES = 500;

/**
 * Returns the state of a clinic at a time, by default now, and the changes since this time. The state includes
 * branches, staff with access, resources and installations. Throws the errors of {@link readClinicHistory}.
 */
export const clinicStateQuery: AuditQuery<typeof clinicStateQuerySchema, ClinicState> = {
  action: "clinic-state",
  schema: clinicStateQuerySchema,
  async run({ clinic: clinicId, at: time, by }, options) {
    const { timeZone, events } = await readClinicHistory(clinicId, options);
    const at = time === undefined ? toInstant(Date.now()) : toClinicInstant(time, timeZone);
    const names = collectNames(events, await readApplications(options, events));
    const states = new StreamStates();
    const changes: ClinicChange[] = [];
    for (const event of events) {
      const { auditEvent, recorded } = event;
      if (getEventTime(auditEvent, by) <= at) states.add(event);
      else if (changes.length <= MAX_CHANGES) {
        const { position, stream, actor, type } = auditEvent;
        const text = typeof recorded === "string" ? `${type}.` : describeChange(recorded, names);
        changes.push({ position, stream, actor, at: getEventTime(auditEvent, by), text });
      }
    }
    return {
      ...{ at, timeZone, ...describeState(clinicId, states, names) },
      ...{ changes: changes.slice(0, MAX_CHANGES), isComplete: changes.length <= MAX_CHANGES },
      problems: states.problems,
    };
  },
};

function describeState(clinicId: string, states: StreamStates, names: Names) {
  const clinic = states.get<Clinic>(`clinic-${clinicId}`);
  const isActive = ({ status }: Membership) => status === "active";
  return {
    /** Null if the clinic was not yet registered at this time. */
    clinic: clinic
      ? {
          ...{ id: clinicId, status: clinic.status },
          ...{ subscription: clinic.subscription, registration: clinic.registration },
        }
      : null,
    branches: clinic?.branches ?? [],
    staff: states
      .list<Membership>("membership")
      .filter(isActive)
      .map(({ userId, rights }) => ({ userId, name: names.get(userId) ?? null, ...rights })),
    resources: [...states.list<Resource>("resource"), ...states.list<Sandbox>("sandbox").flatMap(listFixtureResources)]
      .filter(({ active }) => active)
      .map(({ id, branchId, addition: { name, resourceType: type, capacity } }) => ({
        ...{ id, name, type, branchId, capacity },
      })),
    installations: states
      .list<Installation>("installation")
      .filter(({ status }) => status === "approved")
      .map(({ applicationId, scopes, branchIds, animalAccess }) => {
        return { applicationId, name: names.get(applicationId) ?? null, scopes, branchIds, animalAccess };
      }),
  };
}

function listFixtureResources(sandbox: Sandbox): Resource[] {
  const ids = new Set(sandbox.events.flatMap(({ type, data }) => (type === "ResourceAdded" ? data.resourceId : [])));
  return [...ids].flatMap((id) => findFixtureResource(sandbox, id) ?? []);
}

type DataByType = { [Event in RecordedEvent as Event["type"]]: Event["data"] };
type Sentences = {
  [Type in keyof DataByType]?: (data: DataByType[Type], nameOf: (id: string) => string, subject: string) => string;
};

const describeRights = (
  { role, permissions, branchIds, branchAccess }: Membership["rights"],
  nameOf: (id: string) => string,
) => {
  const branches = branchAccess === "all" ? "all branches" : branchIds.map(nameOf).join(", ");
  return `${role}, with ${permissions.join(", ") || "no permission"} in ${branches}`;
};

/**
 * Functions that describe in a sentence what an event changes in a clinic, by event type. `subject` is the name of the
 * object that the stream belongs to, such as a resource.
 */
const SENTENCES: Sentences = {
  ClinicRegistered: ({ name }) => `The clinic ${name} was registered.`,
  ClinicSuspended: ({ reason }) => `The clinic was suspended: ${reason}.`,
  ClinicReinstated: () => "The clinic was reinstated.",
  ClinicClosed: ({ reason }) => `The clinic was closed: ${reason}.`,
  BranchOpened: ({ name }) => `Branch ${name} was opened.`,
  SubscriptionChanged: ({ plan, status }) => `The subscription changed to plan ${plan}, ${status}.`,
  EntitlementSet: ({ key, enabled }) => `Entitlement ${key} was ${enabled ? "enabled" : "disabled"}.`,
  BookingRulesSet: () => "The booking rules changed.",
  RetentionRuleSet: ({ category, months }) =>
    `The retention period of ${category} ${months === null ? "was removed" : `changed to ${months} months`}.`,
  MembershipGranted: (data, nameOf, subject) =>
    `${subject} was ${data.acceptedAt === null ? "invited" : "added"} as ${describeRights(data, nameOf)}.`,
  MembershipAccepted: (_data, _nameOf, subject) => `${subject} accepted the membership.`,
  MembershipPermissionsChanged: (data, nameOf, subject) => `${subject} became ${describeRights(data, nameOf)}.`,
  MembershipRevoked: (_data, _nameOf, subject) => `The membership of ${subject} was revoked.`,
  StaffMemberHired: ({ role }, _nameOf, subject) => `${subject} was hired as ${role}.`,
  StaffMemberDeactivated: (_data, _nameOf, subject) => `${subject} was deactivated.`,
  StaffMemberReactivated: (_data, _nameOf, subject) => `${subject} was reactivated.`,
  StaffDataErased: (_data, _nameOf, subject) => `The personal data of ${subject} was erased.`,
  ResourceAdded: ({ name }) => `Resource ${name} was added.`,
  ResourceRetired: (_data, _nameOf, subject) => `Resource ${subject} was retired.`,
  SandboxReset: () => "The sandbox was reset.",
  InstallationRequested: ({ scopes }, _nameOf, subject) =>
    `Application ${subject} requested access: ${scopes.join(", ")}.`,
  InstallationApproved: ({ scopes, animalAccess }, _nameOf, subject) =>
    `Application ${subject} was approved for ${scopes.join(", ")}, ${animalAccess} animals.`,
  InstallationNarrowed: ({ scopes, animalAccess }, _nameOf, subject) =>
    `The access of application ${subject} was reduced to ${scopes.join(", ")}, ${animalAccess} animals.`,
  InstallationRateLimitAgreed: ({ rateLimitPerMinute }, _nameOf, subject) =>
    `The rate limit of application ${subject} changed to ${rateLimitPerMinute} per minute.`,
  InstallationRevoked: (_data, _nameOf, subject) => `The access of application ${subject} was revoked.`,
};

function describeChange({ type, data, stream }: RecordedEvent, names: Names): string {
  const nameOf = (id: string) => names.get(id) ?? id;
  const describe = SENTENCES[type] as ((...args: [unknown, typeof nameOf, string]) => string) | undefined;
  return describe?.(data, nameOf, nameOf(stream.slice(stream.indexOf("-") + 1))) ?? `${type}.`;
}
