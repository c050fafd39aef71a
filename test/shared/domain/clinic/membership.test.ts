import * as memberships from "../../../../shared/domain/clinic/membership.ts";
import { type MembershipGrant, membershipAggregate } from "../../../../shared/domain/clinic/membership.ts";
import { portalUserAggregate } from "../../../../shared/domain/clinic/portal-user.ts";
import type { MembershipEvent } from "../../../../shared/domain/events/people.ts";
import { fold, given } from "../../../support/given.ts";
import { clinic } from "./a-clinic.ts";
import { clinicId, mainBranchId, otherClinicId, otherId, someId } from "./ids.ts";

const givenMembership = (...history: MembershipEvent[]) => given(membershipAggregate, ...history);

const membershipId = someId;
const rights = {
  role: "manager" as const,
  permissions: ["manage_staff" as const],
  branchAccess: "all" as const,
  branchIds: [] as string[],
};
const grant: MembershipGrant = { membershipId, clinicId, userId: otherId, staffId: null, acceptedAt: null, ...rights };
const granted: MembershipEvent = { type: "MembershipGranted", data: grant };
const accepted: MembershipEvent = { type: "MembershipAccepted", data: { membershipId } };
const revoked: MembershipEvent = { type: "MembershipRevoked", data: { membershipId, reason: null } };
const target = { clinicId, membershipId };

describe("a membership", () => {
  it("repeating the grant of a membership changes nothing", () => {
    givenMembership().when(memberships.grantMembership(grant, clinic), [granted]);
    givenMembership(granted, accepted).when(memberships.grantMembership(grant, clinic), []);
    givenMembership(granted).when(
      memberships.grantMembership({ ...grant, role: "owner" }, clinic),
      "membership_exists",
    );
  });
  it("a membership can be accepted only once, and not after the membership was revoked", () => {
    givenMembership(granted).whenOnce(memberships.acceptMembership(target), accepted);
    givenMembership(granted, revoked).when(memberships.acceptMembership(target), "membership_revoked");
  });
  it("changing a membership's rights records an event only if the rights differ", () => {
    const changePermissions = memberships.changePermissions({ ...target, ...rights, permissions: [] }, clinic);
    const permissionsChanged: MembershipEvent = {
      type: "MembershipPermissionsChanged",
      data: { membershipId, ...rights, permissions: [] },
    };
    givenMembership(granted).whenOnce(changePermissions, permissionsChanged);
    givenMembership(granted, revoked).when(changePermissions, "membership_revoked");
  });
  it("revoking a revoked membership changes nothing", () => {
    const revoke = memberships.revokeMembership({ ...target, reason: null }, undefined);
    givenMembership(granted).whenOnce(revoke, revoked);
  });
  it("the membership of an erased user can be revoked without a reason only", () => {
    const data = { userId: otherId, categories: ["contact" as const], cause: "request" as const, reason: "Request 17" };
    const user = fold(portalUserAggregate, [{ type: "PortalUserDataErased", data }]);
    const revoke = memberships.revokeMembership({ ...target, reason: "Left" }, user);
    givenMembership(granted).when(revoke, "portal_user_erased");
    givenMembership(granted, revoked).when(revoke, []);
    givenMembership(granted).when(memberships.revokeMembership({ ...target, reason: null }, user), [revoked]);
  });
  it("a membership of another clinic is reported as missing", () => {
    const foreignTarget = { ...target, clinicId: otherClinicId };
    givenMembership(granted).when(memberships.acceptMembership(foreignTarget), "membership_not_found");
    givenMembership(granted).when(
      memberships.revokeMembership({ ...foreignTarget, reason: null }, undefined),
      "membership_not_found",
    );
  });
});

describe("the branches of a membership", () => {
  it("a member with a list of branches has access to these branches only", () => {
    const scope = { branchIds: [mainBranchId], branchAccess: "scoped" as const };
    givenMembership().when(memberships.grantMembership({ ...grant, branchIds: [mainBranchId] }, clinic), [
      { type: "MembershipGranted", data: { ...grant, ...scope } },
    ]);
    givenMembership(granted).when(
      memberships.changePermissions({ ...target, ...rights, branchIds: [mainBranchId] }, clinic),
      [{ type: "MembershipPermissionsChanged", data: { membershipId, ...rights, ...scope } }],
    );
  });

  it("a membership with a branch of another clinic is refused", () => {
    const scope = { branchIds: [mainBranchId, otherId] };
    givenMembership().when(memberships.grantMembership({ ...grant, ...scope }, clinic), "branch_not_found");
    givenMembership(granted).when(
      memberships.changePermissions({ ...target, ...rights, ...scope }, clinic),
      "branch_not_found",
    );
  });
});
