import type Koa from "koa";
import { clinicAggregate } from "../../shared/domain/clinic/clinic.ts";
import { deriveInstallationId } from "../../shared/domain/events/ids.ts";
import { type Application, applicationAggregate } from "../../shared/domain/partner/application.ts";
import { installationAggregate } from "../../shared/domain/partner/installation.ts";
import {
  type AccessQuery,
  type AccessRecord,
  type ClinicState,
  requirePartnerAccess,
} from "../../shared/partner-api/access.ts";
import { REFUSAL_MEMORY_MS } from "../../shared/partner-api/authenticate.ts";
import type { PartnerOperation } from "../../shared/partner-api/operations.ts";
import type { Decide, LoadAggregate } from "../handling/aggregate-cache.ts";

/** Authorizes the request. See {@link requirePartnerAccess}. */
export function authorize(operation: PartnerOperation, decide: Decide): Koa.Middleware<ClinicState> {
  return async (ctx, next) => {
    await decide(
      async (load) => requirePartnerAccess(ctx, operation, await findAccess(load, ctx.state.accessQuery)),
      REFUSAL_MEMORY_MS,
    );
    await next();
  };
}

/**
 * Looks up a partner's access. The lookup does not depend on read models. The installation is null unless it is approved
 * and its clinic belongs to the application's environment.
 */
async function findAccess(load: LoadAggregate, query: AccessQuery): Promise<AccessRecord> {
  const { applicationId, credentialId, environment, clinicId, branchId } = query;
  const [{ state: application }, installation] = await Promise.all([
    load(applicationAggregate, applicationId),
    clinicId && load(installationAggregate, deriveInstallationId(applicationId, clinicId)),
  ]);
  const approved = installation && installation.state?.status === "approved" ? installation.state : null;
  const clinic = approved && clinicId ? (await load(clinicAggregate, clinicId)).state : undefined;
  return {
    isCredentialActive: application?.environment === environment && isActiveCredential(application, credentialId),
    applicationScopes: application?.scopes ?? [],
    installation: clinic?.environment === environment ? approved : null,
    isBranchKnown: !branchId || clinic?.branches.some(({ id }) => id === branchId) === true,
  };
}

function isActiveCredential(application: Application, credentialId: string): boolean {
  return !application.revoked && application.credentials.some(({ id }) => id === credentialId);
}
