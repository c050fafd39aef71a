import * as memberships from "../../shared/domain/clinic/membership.ts";
import * as portalUsers from "../../shared/domain/clinic/portal-user.ts";
import * as staff from "../../shared/domain/clinic/staff.ts";
import { membershipStreams, portalUserStreams, staffStreams } from "../../shared/domain/events/people.ts";
import { defineCommand, defineTransitions } from "./define-command.ts";

const { MembershipGranted, MembershipAccepted, MembershipPermissionsChanged, MembershipRevoked } =
  membershipStreams.events;
const { StaffMemberHired, StaffMemberDeactivated } = staffStreams.events;
const permission = "manage_staff";

const branchIds = MembershipGranted.shape.branchIds.default([]).describe("ids of the permitted branches; default: all");

/** Grants a membership. If the membership names a staff member, this person must belong to the membership's clinic. */
export const grantMembership = defineCommand("membership grant", memberships.membershipAggregate, {
  summary:
    "Makes a portal user a member of a clinic. The user must accept the membership, unless --accepted-at is given.",
  input: MembershipGranted.omit({ branchAccess: true }).extend({ branchIds }),
  creates: "membershipId",
  permission,
  refers: async ({ staffId }, { require }) =>
    staffId === null ? undefined : require(staff.staffAggregate, staffId, "staff_member"),
  decide: memberships.grantMembership,
  example: { role: "owner", permissions: ["manage_staff", "view_clinical", "manage_schedule", "manage_tenant"] },
});

export const acceptMembership = defineCommand("membership accept", memberships.membershipAggregate, {
  summary: "Records that the user accepted the membership.",
  input: MembershipAccepted,
  permission,
  decide: memberships.acceptMembership,
});

export const changePermissions = defineCommand("membership change", memberships.membershipAggregate, {
  summary: "Replaces the role, permissions and branches of a membership.",
  input: MembershipPermissionsChanged.omit({ branchAccess: true }).extend({ branchIds }),
  permission,
  decide: memberships.changePermissions,
  example: { role: "manager", permissions: ["manage_staff", "manage_schedule"] },
});

/** If the user's contact data is erased, a reason is refused, because it is personal data. */
export const revokeMembership = defineCommand("membership revoke", memberships.membershipAggregate, {
  summary: "Revokes a membership permanently.",
  input: MembershipRevoked,
  permission,
  isAllowedWhenClosed: true,
  async refers({ membershipId, reason }, { find }) {
    const membership = reason === null ? undefined : await find(memberships.membershipAggregate, membershipId);
    return find(portalUsers.portalUserAggregate, membership?.userId);
  },
  decide: (revocation, _, __, user) => memberships.revokeMembership(revocation, user),
  example: { reason: "Left the practice" },
});

export const selectClinic = defineCommand("user select", portalUsers.portalUserAggregate, {
  summary: "Selects the clinic and branch that a portal user sees.",
  input: portalUserStreams.events.ClinicSelected,
  permission: "operator",
  decide: portalUsers.selectClinic,
});

export const hireStaff = defineCommand("staff hire", staff.staffAggregate, {
  summary: "Adds a staff member to a clinic.",
  input: StaffMemberHired,
  creates: "staffId",
  permission,
  decide: staff.hireStaff,
  example: { fullName: "Ada Example", email: "ada@example.com", role: "veterinarian" },
});

export const [deactivateStaff, reactivateStaff] = defineTransitions(
  "staff",
  staff.staffAggregate,
  { input: StaffMemberDeactivated, permission },
  [
    ["deactivate", "Deactivates a staff member.", staff.deactivateStaff],
    ["reactivate", "Reactivates a staff member.", staff.reactivateStaff],
  ],
);
