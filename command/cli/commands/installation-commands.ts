import { z } from "zod";
import { option } from "../../../shared/command-line/option.ts";
import { label, uuid } from "../../../shared/domain/events/fields.ts";
import { deriveInstallationId } from "../../../shared/domain/events/ids.ts";
import { animalAccess, installationStreams, scope, scopes } from "../../../shared/domain/events/partner.ts";
import {
  agreeRateLimit,
  approveInstallation,
  narrowInstallation,
  requestInstallation,
  revokeInstallation,
} from "../../operations/installation-operations.ts";
import { type DomainCommand, defineDomainCommand } from "../domain-command.ts";
import { clinic, omitUndefined } from "../options.ts";

const approvalFields = installationStreams.events.InstallationApproved.shape;
const EXAMPLE_INSTALLATION_ARGUMENTS =
  "--application 4f6d0a9e-8c2b-47d1-b3e5-6a7c8d9e0009 --clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";

const installationOptions = {
  application: option.id("the application"),
  clinic,
};
type InstallationValues = Record<keyof typeof installationOptions, string>;
const toStreamId = ({
  application: applicationId,
  clinic: clinicId,
}: { [Name in keyof InstallationValues]?: string | undefined }) =>
  applicationId && clinicId && deriveInstallationId(applicationId, clinicId);
const toReference = ({ application, clinic }: InstallationValues) => ({
  applicationId: application,
  clinicId: clinic,
});
const defineScopesOption = (defaultScopes: string) =>
  option.list(
    z.array(scope).min(1).optional(),
    `scopes, separated by commas: ${scopes.join(", ")}; default: ${defaultScopes}`,
    "scopes",
  );
const reason = option.nullableText(label, "reason");

export const installationCommands: DomainCommand[] = [
  defineDomainCommand(installationStreams, {
    name: "installation request",
    summary: "Requests access to a clinic for an application.",
    example: `${EXAMPLE_INSTALLATION_ARGUMENTS} --scopes clinic:read,appointments:read`,
    options: { ...installationOptions, scopes: defineScopesOption("all") },
    getStreamId: toStreamId,
    run: (log, { scopes, ...values }, context) =>
      requestInstallation(log, { ...toReference(values), ...omitUndefined({ scopes }) }, context),
  }),
  defineDomainCommand(installationStreams, {
    name: "installation approve",
    summary: "Records that a clinic administrator approves the requested access or a part of it.",
    example: `${EXAMPLE_INSTALLATION_ARGUMENTS} --membership 5f0e8a52-7a3c-4be5-9d0a-8a4a62f7c002 --animal-access linked`,
    options: {
      ...installationOptions,
      membership: option.nullableText(
        uuid,
        "the membership of the approving administrator; optional only in the sandbox",
        "uuid",
      ),
      scopes: defineScopesOption("all"),
      branches: option.list(
        approvalFields.branchIds.optional(),
        "the branches, separated by commas; default: all",
        "uuids",
      ),
      animalAccess: option.text(
        animalAccess,
        "animals whose data the application may see: linked (with the owner's consent), or all (systems of the clinic)",
        "name",
      ),
      rateLimit: option.number(approvalFields.rateLimitPerMinute.optional(), "requests per minute; default: 120"),
    },
    getStreamId: toStreamId,
    run: (log, { membership: membershipId, scopes, branches, animalAccess, rateLimit, ...values }, context) => {
      const options = omitUndefined({ scopes, branchIds: branches, rateLimitPerMinute: rateLimit });
      const approval = { ...options, animalAccess };
      return approveInstallation(log, { ...toReference(values), membershipId, ...approval }, context);
    },
  }),
  defineDomainCommand(installationStreams, {
    name: "installation narrow",
    summary: "Removes scopes, branches or animals from an installation.",
    example: `${EXAMPLE_INSTALLATION_ARGUMENTS} --scopes clinic:read`,
    options: {
      ...installationOptions,
      scopes: defineScopesOption("unchanged"),
      branches: option.list(
        z.array(uuid).min(1).optional(),
        "the remaining branches, separated by commas; default: unchanged",
        "uuids",
      ),
      animalAccess: option.text(
        animalAccess.optional(),
        "linked removes all animals without links; default: unchanged",
        "name",
      ),
    },
    getStreamId: toStreamId,
    run: (log, { scopes, branches, animalAccess, ...values }, context) => {
      const changes = omitUndefined({ scopes, branchIds: branches, animalAccess });
      return narrowInstallation(log, { ...toReference(values), ...changes }, context);
    },
  }),
  defineDomainCommand(installationStreams, {
    name: "installation agree-rate",
    summary: "Sets the rate limit of an installation.",
    example: `${EXAMPLE_INSTALLATION_ARGUMENTS} --rate-limit 600`,
    options: {
      ...installationOptions,
      rateLimit: option.number(approvalFields.rateLimitPerMinute, "requests per minute"),
    },
    getStreamId: toStreamId,
    run: (log, { rateLimit: rateLimitPerMinute, ...values }, context) =>
      agreeRateLimit(log, { ...toReference(values), rateLimitPerMinute }, context),
  }),
  defineDomainCommand(installationStreams, {
    name: "installation revoke",
    summary: "Revokes an application's access to a clinic immediately. The application may request access again.",
    example: `${EXAMPLE_INSTALLATION_ARGUMENTS} --reason 'Not used any more'`,
    options: { ...installationOptions, reason },
    getStreamId: toStreamId,
    run: (log, { reason, ...values }, context) => revokeInstallation(log, { ...toReference(values), reason }, context),
  }),
];
