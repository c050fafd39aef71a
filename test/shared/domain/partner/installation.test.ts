import { type Clinic, clinicAggregate } from "../../../../shared/domain/clinic/clinic.ts";
import { type Membership, membershipAggregate } from "../../../../shared/domain/clinic/membership.ts";
import type { AnimalAccess, InstallationEvent, Scope } from "../../../../shared/domain/events/partner.ts";
import type { Permission } from "../../../../shared/domain/events/people.ts";
import { type Application, applicationAggregate } from "../../../../shared/domain/partner/application.ts";
import * as installations from "../../../../shared/domain/partner/installation.ts";
import { type Approval, installationAggregate } from "../../../../shared/domain/partner/installation.ts";
import { branchOpened, clinicRegistered, membershipGranted } from "../../../support/clinics.ts";
import { fold, given } from "../../../support/given.ts";

const clinicId = "c0000000-0000-4000-8000-000000000001";
const applicationId = "a0000000-0000-4000-8000-000000000001";
const installationId = "10000000-0000-4000-8000-000000000001";
const userId = "50000000-0000-4000-8000-000000000001";
const [northId, southId] = ["b1", "b2"];
const scopes: Scope[] = ["clinic:read", "appointments:read"];

const createClinic = (environment: "sandbox" | "production"): Clinic =>
  fold(clinicAggregate, [
    clinicRegistered(clinicId, { environment }),
    branchOpened(clinicId, northId),
    branchOpened(clinicId, southId),
  ] as never[])!;
const clinic = createClinic("production");
const createApplication = (overrides: Partial<Application> = {}): Application => ({
  ...fold(applicationAggregate, [
    { type: "ApplicationRegistered", data: { applicationId, environment: "production", name: "App", scopes } },
  ])!,
  ...overrides,
});
const createMember = (
  permissions: Permission[],
  overrides: Partial<Membership> = {},
  access: object = {},
): Membership => ({
  ...fold(membershipAggregate, [membershipGranted(clinicId, userId, { permissions, ...access })] as never[])!,
  ...overrides,
});
const administrator = createMember(["manage_tenant"]);

const requested: InstallationEvent = {
  type: "InstallationRequested",
  data: { installationId, applicationId, clinicId, scopes },
};
const approvedWith = (overrides: object = {}): InstallationEvent => ({
  type: "InstallationApproved",
  data: {
    installationId,
    applicationId,
    clinicId,
    approvedBy: userId,
    rateLimitPerMinute: 120,
    scopes,
    branchIds: null,
    animalAccess: "all",
    ...overrides,
  },
});
const narrowedTo = (
  scopes: Scope[],
  branchIds: string[] | null,
  animalAccess: AnimalAccess = "all",
): InstallationEvent => ({ type: "InstallationNarrowed", data: { installationId, scopes, branchIds, animalAccess } });
const revoked: InstallationEvent = { type: "InstallationRevoked", data: { installationId, reason: null } };

const givenInstallation = (...history: InstallationEvent[]) => given(installationAggregate, ...history);
const request = (requestedScopes: Scope[] = scopes, applicant: Application | undefined = createApplication()) =>
  installations.requestInstallation({ installationId, scopes: requestedScopes }, applicant, clinic);

describe("installation", () => {
  it("an installation can be requested only by an active application of the clinic's environment, with granted scopes", () => {
    givenInstallation().when(request(), [requested]);
    givenInstallation().when(request(["webhooks:write"]), "scope_not_granted");
    givenInstallation().when(request([]), "scope_not_granted");
    givenInstallation().when(request(scopes, createApplication({ revoked: true })), "application_revoked");
    givenInstallation().when(request(scopes, createApplication({ environment: "sandbox" })), "environment_mismatch");
    const decide = installations.requestInstallation({ installationId, scopes }, undefined, clinic);
    givenInstallation().when(decide, "application_not_found");
  });

  it("an installation can be requested a second time only after the installation was revoked", () => {
    givenInstallation(requested).when(request(), []);
    givenInstallation(requested).when(request(["clinic:read"]), "installation_exists");
    givenInstallation(requested, approvedWith(), revoked).when(request(), [requested]);
  });

  it("an installation can be approved as requested or with fewer scopes and branches", () => {
    const approve = (approval: Partial<Approval> = {}) =>
      installations.approveInstallation({ animalAccess: "all", ...approval }, administrator, clinic);
    givenInstallation(requested).when(approve(), [approvedWith()]);
    givenInstallation(requested).when(approve({ animalAccess: "linked" }), [approvedWith({ animalAccess: "linked" })]);
    const approval = { scopes: ["clinic:read" as const], branchIds: [northId], rateLimitPerMinute: 7 };
    givenInstallation(requested).when(approve(approval), [approvedWith(approval)]);
    givenInstallation(requested).when(approve({ scopes: ["webhooks:write"] }), "scope_not_granted");
    givenInstallation(requested).when(approve({ branchIds: ["elsewhere"] }), "branch_not_found");
    givenInstallation(requested, approvedWith()).when(approve(), "installation_approved");
    givenInstallation(requested, revoked).when(approve(), "installation_revoked");
    givenInstallation().when(approve(), "installation_not_found");
  });

  it("only an administrator of the clinic can approve an installation", () => {
    for (const approver of [
      undefined,
      null,
      createMember(["manage_schedule", "manage_staff"]),
      createMember(["manage_tenant"], { status: "revoked" }),
      createMember(["manage_tenant"], { status: "invited" }),
      createMember(["manage_tenant"], { clinicId: applicationId }),
    ])
      givenInstallation(requested).when(
        installations.approveInstallation({ animalAccess: "all" }, approver, clinic),
        "not_an_administrator",
      );
    const approveInSandbox = installations.approveInstallation({ animalAccess: "all" }, null, createClinic("sandbox"));
    givenInstallation(requested).when(approveInSandbox, [approvedWith({ approvedBy: null })]);
  });

  it("an administrator of some branches can approve only these branches", () => {
    const approver = createMember(["manage_tenant"], {}, { branchAccess: "scoped", branchIds: [northId] });
    for (const branchIds of [undefined, null, [southId], [northId, southId]])
      givenInstallation(requested).when(
        installations.approveInstallation({ animalAccess: "all", branchIds }, approver, clinic),
        "branches_not_granted",
      );
    givenInstallation(requested).when(
      installations.approveInstallation({ animalAccess: "all", branchIds: [northId] }, approver, clinic),
      [approvedWith({ branchIds: [northId] })],
    );
  });

  it("an application can reduce its access to its sandbox, and then gets more only by a new approval", () => {
    const change = (branchIds: string[] | null, animalAccess: "all" | "linked") =>
      installations.changeSandboxAccess({ branchIds, animalAccess }, clinic);
    const approved = [requested, approvedWith({ approvedBy: null })] as const;
    const narrowed = [...approved, narrowedTo(scopes, [northId], "linked")] as const;
    givenInstallation(...approved).when(change([northId], "linked"), [narrowedTo(scopes, [northId], "linked")]);
    givenInstallation(...approved).when(change(null, "all"), []);
    givenInstallation(...narrowed).when(change([northId], "all"), [
      approvedWith({ approvedBy: null, branchIds: [northId] }),
    ]);
    givenInstallation(...narrowed).when(change(null, "linked"), [
      approvedWith({ approvedBy: null, animalAccess: "linked" }),
    ]);
    givenInstallation(...approved).when(change(["7bd9f0a9-0d1c-4b0e-9e5c-9b0c3f6b8f11"], "all"), "validation_failed");
    givenInstallation(requested).when(change(null, "all"), "installation_not_approved");
  });

  it("the scopes and branches of an installation can be reduced but not extended", () => {
    const narrowedHistory = [requested, approvedWith(), narrowedTo(["clinic:read"], [northId])];
    givenInstallation(requested, approvedWith()).when(installations.narrowInstallation({ branchIds: [northId] }), [
      narrowedTo(scopes, [northId]),
    ]);
    givenInstallation(...narrowedHistory).when(installations.narrowInstallation({ branchIds: [northId] }), []);
    givenInstallation(...narrowedHistory).when(
      installations.narrowInstallation({ branchIds: [southId] }),
      "installation_widened",
    );
    givenInstallation(...narrowedHistory).when(installations.narrowInstallation({ scopes }), "scope_not_granted");
    givenInstallation(requested, approvedWith()).when(installations.narrowInstallation({ animalAccess: "linked" }), [
      narrowedTo(scopes, null, "linked"),
    ]);
    givenInstallation(requested, approvedWith({ animalAccess: "linked" })).when(
      installations.narrowInstallation({ animalAccess: "all" }),
      "installation_widened",
    );
    givenInstallation(requested).when(installations.narrowInstallation({}), "installation_not_approved");
  });

  it("a rate limit can be agreed only for an approved installation", () => {
    const agreement = { installationId, rateLimitPerMinute: 600 };
    givenInstallation(requested, approvedWith()).when(installations.agreeRateLimit(600), [
      { type: "InstallationRateLimitAgreed", data: agreement },
    ]);
    givenInstallation(requested, approvedWith()).when(installations.agreeRateLimit(120), []);
    givenInstallation(requested).when(installations.agreeRateLimit(600), "installation_not_approved");
  });

  it("an installation can be revoked before and after the approval", () => {
    givenInstallation(requested).when(installations.revokeInstallation(null), [revoked]);
    givenInstallation(requested, approvedWith()).when(installations.revokeInstallation(null), [revoked]);
    givenInstallation(requested, revoked).when(installations.revokeInstallation(null), []);
    givenInstallation().when(installations.revokeInstallation(null), "installation_not_found");
  });
});
