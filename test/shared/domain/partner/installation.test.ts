import { type Clinic, clinicAggregate } from "../../../../shared/domain/clinic/clinic.ts";
import { type Membership, membershipAggregate } from "../../../../shared/domain/clinic/membership.ts";
import type { AnimalAccess, InstallationEvent, Scope } from "../../../../shared/domain/events/partner.ts";
import type { Permission } from "../../../../shared/domain/events/people.ts";
import { type Application, applicationAggregate } from "../../../../shared/domain/partner/application.ts";
import {
  type Approval,
  decideAgreeRateLimit,
  decideApproveInstallation,
  decideChangeSandboxAccess,
  decideNarrowInstallation,
  decideRequestInstallation,
  decideRevokeInstallation,
  installationAggregate,
} from "../../../../shared/domain/partner/installation.ts";
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
    {
      type: "ApplicationRegistered",
      data: { applicationId, environment: "production", name: "App", scopes },
    },
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
): InstallationEvent => ({
  type: "InstallationNarrowed",
  data: { installationId, scopes, branchIds, animalAccess },
});
const revoked: InstallationEvent = { type: "InstallationRevoked", data: { installationId, reason: null } };

const givenInstallation = (...history: InstallationEvent[]) => given(installationAggregate, ...history);
const request = (requestedScopes: Scope[] = scopes, applicant: Application | undefined = createApplication()) =>
  decideRequestInstallation({ installationId, scopes: requestedScopes }, applicant, clinic);

describe("installation", () => {
  it("an installation can be requested only by an active application of the clinic's environment, with granted scopes", () => {
    givenInstallation().when(request()).thenEvents(requested);
    givenInstallation()
      .when(request(["webhooks:write"]))
      .thenRefused("scope_not_granted");
    givenInstallation().when(request([])).thenRefused("scope_not_granted");
    givenInstallation()
      .when(request(scopes, createApplication({ revoked: true })))
      .thenRefused("application_revoked");
    givenInstallation()
      .when(request(scopes, createApplication({ environment: "sandbox" })))
      .thenRefused("environment_mismatch");
    const decide = decideRequestInstallation({ installationId, scopes }, undefined, clinic);
    givenInstallation().when(decide).thenRefused("application_not_found");
  });

  it("an installation can be requested a second time only after the installation was revoked", () => {
    givenInstallation(requested).when(request()).thenEvents();
    givenInstallation(requested)
      .when(request(["clinic:read"]))
      .thenRefused("installation_exists");
    givenInstallation(requested, approvedWith(), revoked).when(request()).thenEvents(requested);
  });

  it("an installation can be approved as requested or with fewer scopes and branches", () => {
    const approve = (approval: Partial<Approval> = {}) =>
      decideApproveInstallation({ animalAccess: "all", ...approval }, administrator, clinic);
    givenInstallation(requested).when(approve()).thenEvents(approvedWith());
    givenInstallation(requested)
      .when(approve({ animalAccess: "linked" }))
      .thenEvents(approvedWith({ animalAccess: "linked" }));
    const approval = { scopes: ["clinic:read" as const], branchIds: [northId], rateLimitPerMinute: 7 };
    givenInstallation(requested).when(approve(approval)).thenEvents(approvedWith(approval));
    givenInstallation(requested)
      .when(approve({ scopes: ["webhooks:write"] }))
      .thenRefused("scope_not_granted");
    givenInstallation(requested)
      .when(approve({ branchIds: ["elsewhere"] }))
      .thenRefused("branch_not_found");
    givenInstallation(requested)
      .when(approve({ branchIds: [] }))
      .thenRefused("branches_missing");
    givenInstallation(requested, approvedWith()).when(approve()).thenRefused("installation_approved");
    givenInstallation(requested, revoked).when(approve()).thenRefused("installation_revoked");
    givenInstallation().when(approve()).thenRefused("installation_not_found");
  });

  it("only an administrator of the clinic can approve an installation", () => {
    for (const approver of [
      undefined,
      null,
      createMember(["manage_schedule", "manage_staff"]),
      createMember(["manage_tenant"], { status: "revoked" }),
      createMember(["manage_tenant"], { status: "invited" }),
      createMember(["manage_tenant"], { clinicId: applicationId }),
    ]) {
      givenInstallation(requested)
        .when(decideApproveInstallation({ animalAccess: "all" }, approver, clinic))
        .thenRefused("not_an_administrator");
    }
    const approveInSandbox = decideApproveInstallation({ animalAccess: "all" }, null, createClinic("sandbox"));
    givenInstallation(requested)
      .when(approveInSandbox)
      .thenEvents(approvedWith({ approvedBy: null }));
  });

  it("an administrator of some branches can approve only these branches", () => {
    const approver = createMember(["manage_tenant"], {}, { branchAccess: "scoped", branchIds: [northId] });
    for (const branchIds of [undefined, null, [southId], [northId, southId]])
      givenInstallation(requested)
        .when(decideApproveInstallation({ animalAccess: "all", branchIds }, approver, clinic))
        .thenRefused("branches_not_granted");
    givenInstallation(requested)
      .when(decideApproveInstallation({ animalAccess: "all", branchIds: [northId] }, approver, clinic))
      .thenEvents(approvedWith({ branchIds: [northId] }));
  });

  it("an application can reduce its access to its sandbox, and then gets more only by a new approval", () => {
    const change = (branchIds: string[] | null, animalAccess: "all" | "linked") =>
      decideChangeSandboxAccess({ branchIds, animalAccess }, clinic);
    const approved = [requested, approvedWith({ approvedBy: null })] as const;
    const narrowed = [...approved, narrowedTo(scopes, [northId], "linked")] as const;
    givenInstallation(...approved)
      .when(change([northId], "linked"))
      .thenEvents(narrowedTo(scopes, [northId], "linked"));
    givenInstallation(...approved)
      .when(change(null, "all"))
      .thenEvents();
    givenInstallation(...narrowed)
      .when(change([northId], "all"))
      .thenEvents(approvedWith({ approvedBy: null, branchIds: [northId] }));
    givenInstallation(...narrowed)
      .when(change(null, "linked"))
      .thenEvents(approvedWith({ approvedBy: null, animalAccess: "linked" }));
    givenInstallation(...approved)
      .when(change(["7bd9f0a9-0d1c-4b0e-9e5c-9b0c3f6b8f11"], "all"))
      .thenRefused("validation_failed");
    givenInstallation(requested).when(change(null, "all")).thenRefused("installation_not_approved");
  });

  it("the scopes and branches of an installation can be reduced but not extended", () => {
    const narrowedHistory = [requested, approvedWith(), narrowedTo(["clinic:read"], [northId])];
    givenInstallation(requested, approvedWith())
      .when(decideNarrowInstallation({ branchIds: [northId] }))
      .thenEvents(narrowedTo(scopes, [northId]));
    givenInstallation(...narrowedHistory)
      .when(decideNarrowInstallation({ branchIds: [northId] }))
      .thenEvents();
    givenInstallation(...narrowedHistory)
      .when(decideNarrowInstallation({ branchIds: [southId] }))
      .thenRefused("installation_widened");
    givenInstallation(...narrowedHistory)
      .when(decideNarrowInstallation({ scopes }))
      .thenRefused("scope_not_granted");
    givenInstallation(requested, approvedWith())
      .when(decideNarrowInstallation({ animalAccess: "linked" }))
      .thenEvents(narrowedTo(scopes, null, "linked"));
    givenInstallation(requested, approvedWith({ animalAccess: "linked" }))
      .when(decideNarrowInstallation({ animalAccess: "all" }))
      .thenRefused("installation_widened");
    givenInstallation(requested).when(decideNarrowInstallation({})).thenRefused("installation_not_approved");
  });

  it("a rate limit can be agreed only for an approved installation", () => {
    const agreement = { installationId, rateLimitPerMinute: 600 };
    givenInstallation(requested, approvedWith())
      .when(decideAgreeRateLimit(600))
      .thenEvents({ type: "InstallationRateLimitAgreed", data: agreement });
    givenInstallation(requested, approvedWith()).when(decideAgreeRateLimit(120)).thenEvents();
    givenInstallation(requested).when(decideAgreeRateLimit(600)).thenRefused("installation_not_approved");
  });

  it("an installation can be revoked before and after the approval", () => {
    givenInstallation(requested).when(decideRevokeInstallation(null)).thenEvents(revoked);
    givenInstallation(requested, approvedWith()).when(decideRevokeInstallation(null)).thenEvents(revoked);
    givenInstallation(requested, revoked).when(decideRevokeInstallation(null)).thenEvents();
    givenInstallation().when(decideRevokeInstallation(null)).thenRefused("installation_not_found");
  });
});
