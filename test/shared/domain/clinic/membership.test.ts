import {
  decideAcceptMembership,
  decideChangePermissions,
  decideGrantMembership,
  decideRevokeMembership,
  type MembershipGrant,
  membershipAggregate,
} from "../../../../shared/domain/clinic/membership.ts";
import { portalUserAggregate } from "../../../../shared/domain/clinic/portal-user.ts";
import type { MembershipEvent } from "../../../../shared/domain/events/people.ts";
import { fold, given } from "../../../support/given.ts";
import { clinic } from "./a-clinic.ts";
import { clinicId, mainBranchId, otherClinicId, otherId, someId } from "./ids.ts";

const membershipId = someId;
const rights = {
  role: "manager" as const,
  permissions: ["manage_staff" as const],
  branchAccess: "all" as const,
  branchIds: [] as string[],
};
const grant: MembershipGrant = {
  membershipId,
  clinicId,
  userId: otherId,
  staffId: null,
  acceptedAt: null,
  ...rights,
};
const granted: MembershipEvent = { type: "MembershipGranted", data: grant };
const accepted: MembershipEvent = { type: "MembershipAccepted", data: { membershipId } };
const revoked: MembershipEvent = { type: "MembershipRevoked", data: { membershipId, reason: null } };
const target = { clinicId, membershipId };

describe("a membership", () => {
  it("repeating the grant of a membership changes nothing", () => {
    given(membershipAggregate).when(decideGrantMembership(grant, clinic)).thenEvents(granted);
    given(membershipAggregate, granted, accepted).when(decideGrantMembership(grant, clinic)).thenEvents();
    given(membershipAggregate, granted)
      .when(decideGrantMembership({ ...grant, role: "owner" }, clinic))
      .thenRefused("membership_exists");
  });
  it("a membership can be accepted only once, and not after the membership was revoked", () => {
    given(membershipAggregate, granted).when(decideAcceptMembership(target)).thenEvents(accepted);
    given(membershipAggregate, granted, accepted).when(decideAcceptMembership(target)).thenEvents();
    given(membershipAggregate, granted, revoked).when(decideAcceptMembership(target)).thenRefused("membership_revoked");
  });
  it("changing a membership's rights records an event only if the rights differ", () => {
    const changePermissions = decideChangePermissions({ ...target, rights: { ...rights, permissions: [] } }, clinic);
    const permissionsChanged: MembershipEvent = {
      type: "MembershipPermissionsChanged",
      data: { membershipId, ...rights, permissions: [] },
    };
    given(membershipAggregate, granted).when(changePermissions).thenEvents(permissionsChanged);
    given(membershipAggregate, granted, permissionsChanged).when(changePermissions).thenEvents();
    given(membershipAggregate, granted, revoked).when(changePermissions).thenRefused("membership_revoked");
  });
  it("revoking a revoked membership changes nothing", () => {
    const revoke = decideRevokeMembership({ ...target, reason: null }, undefined);
    given(membershipAggregate, granted).when(revoke).thenEvents(revoked);
    given(membershipAggregate, granted, revoked).when(revoke).thenEvents();
  });
  it("the membership of an erased user can be revoked without a reason only", () => {
    const data = { userId: otherId, categories: ["contact" as const], cause: "request" as const, reason: "Request 17" };
    const user = fold(portalUserAggregate, [{ type: "PortalUserDataErased", data }]);
    const revoke = decideRevokeMembership({ ...target, reason: "Left" }, user);
    given(membershipAggregate, granted).when(revoke).thenRefused("portal_user_erased");
    given(membershipAggregate, granted, revoked).when(revoke).thenEvents();
    given(membershipAggregate, granted)
      .when(decideRevokeMembership({ ...target, reason: null }, user))
      .thenEvents(revoked);
  });
  it("a membership of another clinic is reported as missing", () => {
    const foreignTarget = { ...target, clinicId: otherClinicId };
    given(membershipAggregate, granted).when(decideAcceptMembership(foreignTarget)).thenRefused("membership_not_found");
    given(membershipAggregate, granted)
      .when(decideRevokeMembership({ ...foreignTarget, reason: null }, undefined))
      .thenRefused("membership_not_found");
  });
});

describe("the branches of a membership", () => {
  const cases = [
    { branchAccess: "scoped" as const, branchIds: [], code: "branches_missing" },
    { branchAccess: "scoped" as const, branchIds: [mainBranchId, otherId], code: "branch_not_found" },
    { branchAccess: "all" as const, branchIds: [mainBranchId], code: "branches_of_unscoped" },
  ];
  for (const { code, ...scope } of cases) {
    it(`a membership with an invalid list of branches is refused with ${code}`, () => {
      given(membershipAggregate)
        .when(decideGrantMembership({ ...grant, ...scope }, clinic))
        .thenRefused(code);
      given(membershipAggregate, granted)
        .when(decideChangePermissions({ ...target, rights: { ...rights, ...scope } }, clinic))
        .thenRefused(code);
    });
  }
});
