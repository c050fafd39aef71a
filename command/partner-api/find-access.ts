import { deriveInstallationId } from "../../shared/domain/events/ids.ts";
import { type Application, applicationAggregate } from "../../shared/domain/partner/application.ts";
import { type Installation, installationAggregate } from "../../shared/domain/partner/installation.ts";
import type { FindAccess, InstallationRecord } from "../../shared/partner-api/access.ts";
import type { LoadAggregate } from "../handling/aggregate-cache.ts";

/** Creates the lookup of a partner's access. The lookup does not depend on read models. */
export function createAccessFinder(load: LoadAggregate): FindAccess {
  return async ({ applicationId, credentialId, environment, clinicId }) => {
    const [loadedApplication, loadedInstallation] = await Promise.all([
      load(applicationAggregate, applicationId),
      clinicId === null ? null : load(installationAggregate, deriveInstallationId(applicationId, clinicId)),
    ]);
    const { state } = loadedApplication;
    return {
      isCredentialActive: state?.environment === environment && isActiveCredential(state, credentialId),
      applicationScopes: state?.scopes ?? [],
      installation: toInstallationRecord(loadedInstallation?.state),
    };
  };
}

function isActiveCredential(application: Application, credentialId: string): boolean {
  return !application.revoked && application.credentials.some(({ id }) => id === credentialId);
}

function toInstallationRecord(installation: Installation | undefined): InstallationRecord | null {
  if (installation?.status !== "approved") return null;
  const { scopes, branchIds, rateLimitPerMinute } = installation;
  return { scopes, branchIds, rateLimitPerMinute };
}
