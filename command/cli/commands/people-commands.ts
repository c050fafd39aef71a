import { option } from "../../../shared/command-line/option.ts";
import { membershipStreams, portalUserStreams, staffStreams } from "../../../shared/domain/events/people.ts";
import {
  acceptMembership,
  changePermissions,
  deactivateStaff,
  grantMembership,
  hireStaff,
  reactivateStaff,
  revokeMembership,
  selectClinic,
} from "../../operations/people-operations.ts";
import { type DomainCommand, defineDomainCommand } from "../domain-command.ts";
import { clinic } from "../options.ts";

const membershipFields = membershipStreams.events.MembershipGranted.shape;
const staffFields = staffStreams.events.StaffMemberHired.shape;
const EXAMPLE_CLINIC_ARGUMENT = "--clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";
const EXAMPLE_ID_ARGUMENT = "--id 5f0e8a52-7a3c-4be5-9d0a-8a4a62f7c002";

const membershipOptions = { id: option.id("the membership"), clinic };
const staffOptions = { id: option.id("the staff member"), clinic };
const rightsOptions = {
  role: option.text(
    membershipFields.role,
    "role: owner, manager, veterinarian, receptionist or assistant; a role grants no permissions",
    "role",
  ),
  permissions: option.list(
    membershipFields.permissions,
    "permissions, separated by commas: manage_staff, view_clinical, manage_schedule, manage_tenant",
  ),
  branches: option.list(
    membershipFields.branchIds.default([]),
    "the branches, separated by commas; default: all",
    "uuids",
  ),
};

function toRights<Role, Permissions>(values: { role: Role; permissions: Permissions; branches: string[] }) {
  const { role, permissions, branches: branchIds } = values;
  const branchAccess = branchIds.length > 0 ? ("scoped" as const) : ("all" as const);
  return { role, permissions, branchAccess, branchIds };
}

export const peopleCommands: DomainCommand[] = [
  defineDomainCommand(membershipStreams, {
    name: "membership grant",
    summary:
      "Makes a portal user a member of a clinic. The user must accept the membership, unless --accepted-at is given.",
    example: `${EXAMPLE_CLINIC_ARGUMENT} --user 0d4c53a6-6d0f-4f6c-8a5f-0a1b2c3d4e5f --role owner --permissions manage_staff,view_clinical,manage_schedule,manage_tenant`,
    options: {
      id: option.newId("the new membership's id"),
      clinic,
      user: option.id("the portal user: the `sub` claim of the user's session"),
      staff: option.nullableText(membershipFields.staffId, "the staff member who is this user", "uuid"),
      ...rightsOptions,
      acceptedAt: option.nullableText(
        membershipFields.acceptedAt,
        "time at which the user accepted the invitation",
        "date-time",
      ),
    },
    run: (log, { id: membershipId, clinic: clinicId, user: userId, staff: staffId, ...details }, context) => {
      const grant = { membershipId, clinicId, userId, staffId, acceptedAt: details.acceptedAt };
      return grantMembership(log, { ...grant, ...toRights(details) }, context);
    },
  }),
  defineDomainCommand(membershipStreams, {
    name: "membership accept",
    summary: "Records that the user accepted the membership.",
    example: `${EXAMPLE_ID_ARGUMENT} ${EXAMPLE_CLINIC_ARGUMENT}`,
    options: membershipOptions,
    run: (log, { id: membershipId, clinic: clinicId }, context) =>
      acceptMembership(log, { membershipId, clinicId }, context),
  }),
  defineDomainCommand(membershipStreams, {
    name: "membership change",
    summary: "Replaces the role, permissions and branches of a membership.",
    example: `${EXAMPLE_ID_ARGUMENT} ${EXAMPLE_CLINIC_ARGUMENT} --role manager --permissions manage_staff,manage_schedule`,
    options: { ...membershipOptions, ...rightsOptions },
    run: (log, { id: membershipId, clinic: clinicId, ...details }, context) =>
      changePermissions(log, { membershipId, clinicId, rights: toRights(details) }, context),
  }),
  defineDomainCommand(membershipStreams, {
    name: "membership revoke",
    summary: "Revokes a membership permanently.",
    example: `${EXAMPLE_ID_ARGUMENT} ${EXAMPLE_CLINIC_ARGUMENT} --reason 'Left the practice'`,
    options: {
      ...membershipOptions,
      reason: option.nullableText(membershipStreams.events.MembershipRevoked.shape.reason, "reason"),
    },
    run: (log, { id: membershipId, clinic: clinicId, reason }, context) =>
      revokeMembership(log, { membershipId, clinicId, reason }, context),
  }),
  defineDomainCommand(portalUserStreams, {
    name: "user select",
    summary: "Selects the clinic and branch that a portal user sees.",
    example: `--user 0d4c53a6-6d0f-4f6c-8a5f-0a1b2c3d4e5f ${EXAMPLE_CLINIC_ARGUMENT}`,
    options: {
      user: option.id("the portal user"),
      clinic,
      branch: option.nullableText(
        portalUserStreams.events.ClinicSelected.shape.branchId,
        "the branch; default: the user's first branch",
        "uuid",
      ),
    },
    getStreamId: (values) => values.user,
    run: (log, { user: userId, clinic: clinicId, branch: branchId }, context) =>
      selectClinic(log, { userId, clinicId, branchId }, context),
  }),
  defineDomainCommand(staffStreams, {
    name: "staff hire",
    summary: "Adds a staff member to a clinic.",
    example: `${EXAMPLE_CLINIC_ARGUMENT} --full-name 'Ada Example' --email ada@example.com --role veterinarian`,
    options: {
      id: option.newId("the new staff member's id"),
      clinic,
      user: option.nullableText(staffFields.userId, "the staff member's portal user", "uuid"),
      fullName: option.nullableText(staffFields.fullName, "name"),
      email: option.nullableText(staffFields.email, "e-mail address", "address"),
      role: rightsOptions.role,
    },
    run: (log, { id: staffId, clinic: clinicId, user: userId, ...details }, context) =>
      hireStaff(log, { staffId, clinicId, userId, ...details }, context),
  }),
  defineDomainCommand(staffStreams, {
    name: "staff deactivate",
    summary: "Deactivates a staff member.",
    example: `${EXAMPLE_ID_ARGUMENT} ${EXAMPLE_CLINIC_ARGUMENT}`,
    options: staffOptions,
    run: (log, { id: staffId, clinic: clinicId }, context) => deactivateStaff(log, { staffId, clinicId }, context),
  }),
  defineDomainCommand(staffStreams, {
    name: "staff reactivate",
    summary: "Reactivates a staff member.",
    example: `${EXAMPLE_ID_ARGUMENT} ${EXAMPLE_CLINIC_ARGUMENT}`,
    options: staffOptions,
    run: (log, { id: staffId, clinic: clinicId }, context) => reactivateStaff(log, { staffId, clinicId }, context),
  }),
];
