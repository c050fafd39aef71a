import type { Decision } from "../../shared/domain/aggregate.ts";
import { type Clinic, requireBranch, restrictToOpenClinic } from "../../shared/domain/clinic/clinic.ts";
import { membershipAggregate } from "../../shared/domain/clinic/membership.ts";
import { deriveInstallationId } from "../../shared/domain/events/ids.ts";
import type { AnimalAccess, InstallationEvent, Scope } from "../../shared/domain/events/partner.ts";
import { applicationAggregate } from "../../shared/domain/partner/application.ts";
import {
  type Approval,
  decideAgreeRateLimit,
  decideApproveInstallation,
  decideChangeSandboxAccess,
  decideNarrowInstallation,
  decideRequestInstallation,
  decideRevokeInstallation,
  type Installation,
  installationAggregate,
} from "../../shared/domain/partner/installation.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { handle, loadAggregate } from "../handling/handle.ts";
import { createClinicContext, loadCommandClinic, type Operation } from "./operation.ts";

/** Identifies an installation by application and clinic. An application has at most one installation at each clinic. */
export interface InstallationReference {
  applicationId: string;
  clinicId: string;
}

type InstallationDecision = Decision<Installation, InstallationEvent>;

function defineOperation<Input extends InstallationReference>(
  decide: (input: Input, clinic: Clinic, log: EventLog) => InstallationDecision | Promise<InstallationDecision>,
): Operation<Input, Installation> {
  return async (log, input, context) => {
    const { clinic, clinicContext } = await loadCommandClinic(log, input.clinicId, context);
    const decideForOpenClinic = restrictToOpenClinic(clinic, await decide(input, clinic, log));
    return handle(log, installationAggregate, toInstallationId(input), decideForOpenClinic, clinicContext);
  };
}

/**
 * Requests access to a clinic. The application must have the requested scopes; default: all scopes of the application.
 */
export const requestInstallation = defineOperation(
  async (input: InstallationReference & { scopes?: Scope[] }, clinic, log) => {
    const { state: application } = await loadAggregate(log, applicationAggregate, input.applicationId);
    const scopes = input.scopes ?? application?.scopes ?? [];
    return decideRequestInstallation({ installationId: toInstallationId(input), scopes }, application, clinic);
  },
);

/**
 * Approves the requested access or a part of that access.
 *
 * @param input.membershipId membership of the approving clinic administrator; null in the sandbox, which needs no
 *   approval
 */
export const approveInstallation = defineOperation(
  async (input: InstallationReference & Approval & { membershipId: string | null }, clinic, log) => {
    const { membershipId } = input;
    const approver = membershipId === null ? null : (await loadAggregate(log, membershipAggregate, membershipId)).state;
    return decideApproveInstallation(input, approver, clinic);
  },
);

export const narrowInstallation = defineOperation(
  (input: InstallationReference & { scopes?: Scope[]; branchIds?: string[]; animalAccess?: AnimalAccess }, clinic) => {
    for (const branchId of input.branchIds ?? []) requireBranch(clinic, branchId);
    return decideNarrowInstallation(input);
  },
);

export const changeSandboxAccess = defineOperation(
  (input: InstallationReference & { branchIds: string[] | null; animalAccess: AnimalAccess }, clinic) =>
    decideChangeSandboxAccess({ branchIds: input.branchIds, animalAccess: input.animalAccess }, clinic),
);

export const agreeRateLimit = defineOperation(
  ({ rateLimitPerMinute }: InstallationReference & { rateLimitPerMinute: number }) =>
    decideAgreeRateLimit(rateLimitPerMinute),
);

/**
 * Revokes an application's access to a clinic, effective within a second. The application may request access again. Also
 * possible at a closed clinic.
 */
export const revokeInstallation: Operation<InstallationReference & { reason: string | null }, Installation> = async (
  log,
  input,
  context,
) => {
  const clinicContext = await createClinicContext(log, input.clinicId, context);
  const decide = decideRevokeInstallation(input.reason);
  return handle(log, installationAggregate, toInstallationId(input), decide, clinicContext);
};

function toInstallationId({ applicationId, clinicId }: InstallationReference): string {
  return deriveInstallationId(applicationId, clinicId);
}
