import { z } from "zod";
import { requireBranch } from "../../shared/domain/clinic/clinic.ts";
import { membershipAggregate } from "../../shared/domain/clinic/membership.ts";
import { uuid } from "../../shared/domain/events/fields.ts";
import { deriveInstallationId } from "../../shared/domain/events/ids.ts";
import { type AnimalAccess, installationStreams } from "../../shared/domain/events/partner.ts";
import { applicationAggregate } from "../../shared/domain/partner/application.ts";
import * as installations from "../../shared/domain/partner/installation.ts";
import { defineCommand } from "./define-command.ts";
import { defineClinicOperation } from "./operation.ts";

/** Identifies an installation by application and clinic. An application has at most one installation at each clinic. */
export interface InstallationReference {
  applicationId: string;
  clinicId: string;
}

const { InstallationRequested, InstallationApproved, InstallationRevoked } = installationStreams.events;
const applicationId = InstallationRequested.shape.applicationId;
const grant = InstallationApproved.omit({ installationId: true, approvedBy: true }).shape;

const common = {
  permission: "manage_tenant",
  streamId: ({ applicationId, clinicId }: InstallationReference) => deriveInstallationId(applicationId, clinicId),
} as const;

export const requestInstallation = defineCommand("installation request", installations.installationAggregate, {
  ...common,
  summary: "Requests access to a clinic for an application.",
  input: InstallationRequested.omit({ installationId: true }).extend({
    scopes: grant.scopes.exactOptional().describe("scopes of the application; default: all"),
  }),
  refers: ({ applicationId }, { find }) => find(applicationAggregate, applicationId),
  decide(input, clinic, _, application) {
    const scopes = input.scopes ?? application?.scopes ?? [];
    return installations.requestInstallation({ installationId: common.streamId(input), scopes }, application, clinic);
  },
  example: { scopes: ["clinic:read", "appointments:read"] },
});

export const approveInstallation = defineCommand("installation approve", installations.installationAggregate, {
  ...common,
  summary: "Records that a clinic administrator approves the requested access or a part of it.",
  input: InstallationApproved.omit({ installationId: true, approvedBy: true }).extend({
    membershipId: uuid
      .nullable()
      .describe("id of the membership of the approving administrator; optional only in the sandbox"),
    scopes: grant.scopes.exactOptional().describe("approved scopes; default: all"),
    rateLimitPerMinute: grant.rateLimitPerMinute.default(installations.DEFAULT_RATE_LIMIT_PER_MINUTE),
  }),
  refers: async ({ membershipId }, { find }) =>
    membershipId === null ? null : find(membershipAggregate, membershipId),
  decide: (approval, clinic, _, approver) => installations.approveInstallation(approval, approver, clinic),
  example: { membershipId: "5f0e8a52-7a3c-4be5-9d0a-8a4a62f7c002", animalAccess: "linked" },
});

export const narrowInstallation = defineCommand("installation narrow", installations.installationAggregate, {
  ...common,
  summary: "Removes scopes, branches or animals from an installation.",
  input: z.object({
    applicationId,
    scopes: grant.scopes.exactOptional().describe("remaining scopes; default: unchanged"),
    branchIds: grant.branchIds.unwrap().exactOptional().describe("ids of the remaining branches; default: unchanged"),
    animalAccess: grant.animalAccess
      .exactOptional()
      .describe("linked removes all animals without links; default: unchanged"),
  }),
  decide(narrowing, clinic) {
    for (const branchId of narrowing.branchIds ?? []) requireBranch(clinic, branchId);
    return installations.narrowInstallation(narrowing);
  },
  example: { scopes: ["clinic:read"] },
});

export const changeSandboxAccess = defineClinicOperation(installations.installationAggregate, {
  streamId: common.streamId,
  decide: (
    { branchIds, animalAccess }: InstallationReference & { branchIds: string[] | null; animalAccess: AnimalAccess },
    clinic,
  ) => installations.changeSandboxAccess({ branchIds, animalAccess }, clinic),
});

export const agreeRateLimit = defineCommand("installation agree-rate", installations.installationAggregate, {
  ...common,
  permission: "operator",
  summary: "Sets the rate limit of an installation.",
  input: z.object({ applicationId, rateLimitPerMinute: grant.rateLimitPerMinute }),
  decide: ({ rateLimitPerMinute }) => installations.agreeRateLimit(rateLimitPerMinute),
  example: { rateLimitPerMinute: 600 },
});

export const revokeInstallation = defineCommand("installation revoke", installations.installationAggregate, {
  ...common,
  summary: "Revokes an application's access to a clinic immediately. The application may request access again.",
  input: z.object({ applicationId, reason: InstallationRevoked.shape.reason }),
  isAllowedWhenClosed: true,
  decide: ({ reason }) => installations.revokeInstallation(reason),
  example: { reason: "Not used any more" },
});
