import { type Clinic, clinicAggregate } from "../../../../shared/domain/clinic/clinic.ts";
import { type Membership, membershipAggregate } from "../../../../shared/domain/clinic/membership.ts";
import type { InstallationEvent, Scope } from "../../../../shared/domain/events/partner.ts";
import type { Permission } from "../../../../shared/domain/events/people.ts";
import { type Application, applicationAggregate } from "../../../../shared/domain/partner/application.ts";
import {
  decideAgreeRateLimit,
  decideApproveInstallation,
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
const [north, south] = ["b1", "b2"];
const scopes: Scope[] = ["clinic:read", "appointments:read"];

const clinicIn = (environment: "sandbox" | "production"): Clinic =>
  fold(clinicAggregate, [
    clinicRegistered(clinicId, { environment }),
    branchOpened(clinicId, north),
    branchOpened(clinicId, south),
  ] as never[])!;
const clinic = clinicIn("production");
const application = (overrides: Partial<Application> = {}): Application => ({
  ...fold(applicationAggregate, [
    {
      type: "ApplicationRegistered",
      data: { applicationId, environment: "production", name: "App", scopes },
    },
  ])!,
  ...overrides,
});
const member = (permissions: Permission[], overrides: Partial<Membership> = {}): Membership => ({
  ...fold(membershipAggregate, [membershipGranted(clinicId, userId, { permissions })] as never[])!,
  ...overrides,
});
const administrator = member(["manage_tenant"]);

const requested: InstallationEvent = {
  type: "InstallationRequested",
  data: { installationId, applicationId, clinicId, scopes },
};
const approvedWith = (overrides: object = {}): InstallationEvent => ({
  type: "InstallationApproved",
  data: {
    ...{ installationId, applicationId, clinicId, approvedBy: userId },
    ...{ rateLimitPerMinute: 120, scopes, branchIds: null },
    ...overrides,
  },
});
const narrowedTo = (scopes: Scope[], branchIds: string[] | null): InstallationEvent => ({
  type: "InstallationNarrowed",
  data: { installationId, scopes, branchIds },
});
const revoked: InstallationEvent = { type: "InstallationRevoked", data: { installationId, reason: null } };

const on = (...history: InstallationEvent[]) => given(installationAggregate, ...history);
const request = (requestedScopes: Scope[] = scopes, applicant: Application | undefined = application()) =>
  decideRequestInstallation({ installationId, scopes: requestedScopes }, applicant, clinic);

describe("installation", () => {
  it("an installation can be requested only by an active application of the clinic's environment, with granted scopes", () => {
    on().when(request()).thenEvents(requested);
    on()
      .when(request(["webhooks:write"]))
      .thenRefused("scope_not_granted");
    on().when(request([])).thenRefused("scope_not_granted");
    on()
      .when(request(scopes, application({ revoked: true })))
      .thenRefused("application_revoked");
    on()
      .when(request(scopes, application({ environment: "sandbox" })))
      .thenRefused("environment_mismatch");
    const decide = decideRequestInstallation({ installationId, scopes }, undefined, clinic);
    on().when(decide).thenRefused("application_not_found");
  });

  it("an installation can be requested a second time only after the installation was revoked", () => {
    on(requested).when(request()).thenEvents();
    on(requested)
      .when(request(["clinic:read"]))
      .thenRefused("installation_exists");
    on(requested, approvedWith(), revoked).when(request()).thenEvents(requested);
  });

  it("an installation can be approved as requested or with fewer scopes and branches", () => {
    const approve = (approval: Parameters<typeof decideApproveInstallation>[0] = {}) =>
      decideApproveInstallation(approval, administrator, clinic);
    on(requested).when(approve()).thenEvents(approvedWith());
    const approval = { scopes: ["clinic:read" as const], branchIds: [north], rateLimitPerMinute: 7 };
    on(requested).when(approve(approval)).thenEvents(approvedWith(approval));
    on(requested)
      .when(approve({ scopes: ["webhooks:write"] }))
      .thenRefused("scope_not_granted");
    on(requested)
      .when(approve({ branchIds: ["elsewhere"] }))
      .thenRefused("branch_not_found");
    on(requested)
      .when(approve({ branchIds: [] }))
      .thenRefused("branches_missing");
    on(requested, approvedWith()).when(approve()).thenRefused("installation_approved");
    on(requested, revoked).when(approve()).thenRefused("installation_revoked");
    on().when(approve()).thenRefused("installation_not_found");
  });

  it("only an administrator of the clinic can approve an installation", () => {
    for (const approver of [
      undefined,
      null,
      member(["manage_schedule", "manage_staff"]),
      member(["manage_tenant"], { status: "revoked" }),
      member(["manage_tenant"], { status: "invited" }),
      member(["manage_tenant"], { clinicId: applicationId }),
    ]) {
      on(requested)
        .when(decideApproveInstallation({}, approver, clinic))
        .thenRefused("not_an_administrator");
    }
    const inSandbox = decideApproveInstallation({}, null, clinicIn("sandbox"));
    on(requested)
      .when(inSandbox)
      .thenEvents(approvedWith({ approvedBy: null }));
  });

  it("the scopes and branches of an installation can be reduced but not extended", () => {
    const narrowedHistory = [requested, approvedWith(), narrowedTo(["clinic:read"], [north])];
    on(requested, approvedWith())
      .when(decideNarrowInstallation({ branchIds: [north] }))
      .thenEvents(narrowedTo(scopes, [north]));
    on(...narrowedHistory)
      .when(decideNarrowInstallation({ branchIds: [north] }))
      .thenEvents();
    on(...narrowedHistory)
      .when(decideNarrowInstallation({ branchIds: [south] }))
      .thenRefused("installation_widened");
    on(...narrowedHistory)
      .when(decideNarrowInstallation({ scopes }))
      .thenRefused("scope_not_granted");
    on(requested).when(decideNarrowInstallation({})).thenRefused("installation_not_approved");
  });

  it("a rate limit can be agreed only for an approved installation", () => {
    const agreement = { installationId, rateLimitPerMinute: 600 };
    on(requested, approvedWith())
      .when(decideAgreeRateLimit(600))
      .thenEvents({ type: "InstallationRateLimitAgreed", data: agreement });
    on(requested, approvedWith()).when(decideAgreeRateLimit(120)).thenEvents();
    on(requested).when(decideAgreeRateLimit(600)).thenRefused("installation_not_approved");
  });

  it("an installation can be revoked before and after the approval", () => {
    on(requested).when(decideRevokeInstallation(null)).thenEvents(revoked);
    on(requested, approvedWith()).when(decideRevokeInstallation(null)).thenEvents(revoked);
    on(requested, revoked).when(decideRevokeInstallation(null)).thenEvents();
    on().when(decideRevokeInstallation(null)).thenRefused("installation_not_found");
  });
});
