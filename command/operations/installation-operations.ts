import type { Decision } from "../../shared/domain/aggregate.ts";
import { type Clinic, requireBranch, restrictToOpenClinic } from "../../shared/domain/clinic/clinic.ts";
import { membershipAggregate } from "../../shared/domain/clinic/membership.ts";
import { installationId } from "../../shared/domain/events/ids.ts";
import type { InstallationEvent, Scope } from "../../shared/domain/events/partner.ts";
import { applicationAggregate } from "../../shared/domain/partner/application.ts";
import {
  type Approval,
  decideAgreeRateLimit,
  decideApproveInstallation,
  decideNarrowInstallation,
  decideRequestInstallation,
  decideRevokeInstallation,
  type Installation,
  installationAggregate,
} from "../../shared/domain/partner/installation.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { type CommandContext, type Handled, handle, load } from "../handling/handle.ts";
import { loadClinicOf } from "./operation.ts";

/** Identifies an installation: an application has one at each clinic. */
export interface InstallationOf {
  applicationId: string;
  clinicId: string;
}

/** Requests access to a clinic. The scopes must be within those of the application; default: all of them. */
export async function requestInstallation(
  log: EventLog,
  input: InstallationOf & { scopes?: Scope[] },
  context: CommandContext,
): Promise<Handled<Installation>> {
  const { state: application } = await load(log, applicationAggregate, input.applicationId);
  const asked = { installationId: idOf(input), scopes: input.scopes ?? application?.scopes ?? [] };
  return change(log, input, (clinic) => decideRequestInstallation(asked, application, clinic), context);
}

/**
 * Approves the requested access or a part of it.
 *
 * @param input.membershipId membership of the approving clinic administrator; null in the sandbox, which needs no
 *   approval
 */
export async function approveInstallation(
  log: EventLog,
  input: InstallationOf & Approval & { membershipId: string | null },
  context: CommandContext,
): Promise<Handled<Installation>> {
  const { membershipId } = input;
  const approver = membershipId === null ? null : (await load(log, membershipAggregate, membershipId)).state;
  return change(log, input, (clinic) => decideApproveInstallation(input, approver, clinic), context);
}

/** Removes scopes or branches from an approved installation. */
export function narrowInstallation(
  log: EventLog,
  input: InstallationOf & { scopes?: Scope[]; branchIds?: string[] },
  context: CommandContext,
): Promise<Handled<Installation>> {
  const decide = (clinic: Clinic) => {
    for (const branchId of input.branchIds ?? []) requireBranch(clinic, branchId);
    return decideNarrowInstallation(input);
  };
  return change(log, input, decide, context);
}

/** Sets the rate limit of an installation. */
export function agreeRateLimit(
  log: EventLog,
  input: InstallationOf & { rateLimitPerMinute: number },
  context: CommandContext,
): Promise<Handled<Installation>> {
  return change(log, input, () => decideAgreeRateLimit(input.rateLimitPerMinute), context);
}

/** Revokes an application's access to a clinic from the next request. The application may request access again. */
export async function revokeInstallation(
  log: EventLog,
  input: InstallationOf & { reason: string | null },
  context: CommandContext,
): Promise<Handled<Installation>> {
  // The clinic is not loaded, because an installation can also be revoked at a closed clinic.
  const { clinicId } = input;
  const decide = decideRevokeInstallation(input.reason);
  return handle(log, installationAggregate, idOf(input), decide, { ...context, clinicId });
}

async function change(
  log: EventLog,
  input: InstallationOf,
  decide: (clinic: Clinic) => Decision<Installation, InstallationEvent>,
  context: CommandContext,
): Promise<Handled<Installation>> {
  const { clinic, context: ofClinic } = await loadClinicOf(log, input.clinicId, context);
  return handle(
    log,
    installationAggregate,
    idOf(input),
    restrictToOpenClinic(clinic, decide(clinic)),
    ofClinic,
  );
}

function idOf({ applicationId, clinicId }: InstallationOf): string {
  return installationId(applicationId, clinicId);
}
