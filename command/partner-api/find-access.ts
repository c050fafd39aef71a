import { deriveInstallationId } from "../../shared/domain/events/ids.ts";
import { type Application, applicationAggregate } from "../../shared/domain/partner/application.ts";
import { type Installation, installationAggregate } from "../../shared/domain/partner/installation.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import type { FindAccess, InstallationRecord } from "../../shared/partner-api/access.ts";
import { loadAggregate } from "../handling/handle.ts";

/**
 * Creates the lookup of a partner's access. The lookup reads the event log, so that writes do not depend on read
 * models.
 */
export function createAccessFinder(log: EventLog): FindAccess {
  return async ({ applicationId, credentialId, environment, clinicId }) => {
    const [application, installation] = await Promise.all([
      loadAggregate(log, applicationAggregate, applicationId),
      clinicId === null
        ? null
        : loadAggregate(log, installationAggregate, deriveInstallationId(applicationId, clinicId)),
    ]);
    const { state } = application;
    return {
      credentialLive: state?.environment === environment && isActiveCredential(state, credentialId),
      applicationScopes: state?.scopes ?? [],
      installation: toInstallationRecord(installation?.state),
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
