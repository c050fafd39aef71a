import { z } from "zod";
import { label, uuid } from "../../../shared/domain/events/fields.ts";
import { installationId } from "../../../shared/domain/events/ids.ts";
import { installationCategory, scope, scopes } from "../../../shared/domain/events/partner.ts";
import {
  agreeRateLimit,
  approveInstallation,
  narrowInstallation,
  requestInstallation,
  revokeInstallation,
} from "../../operations/installation-operations.ts";
import { type Command, defineCommand } from "../framework/command.ts";
import { id, list, number, omitUndefined, textOrNull } from "../framework/option.ts";

const approved = installationCategory.events.InstallationApproved.shape;
const OF = "--application 4f6d0a9e-8c2b-47d1-b3e5-6a7c8d9e0009 --clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";

const of = { application: id("the application"), clinic: id("the clinic") };
const installationOf = ({
  application,
  clinic,
}: {
  application?: string | undefined;
  clinic?: string | undefined;
}) => application && clinic && installationId(application, clinic);
const toOf = (values: { application: string; clinic: string }) => ({
  applicationId: values.application,
  clinicId: values.clinic,
});
const someScopes = list(
  z.array(scope).min(1).optional(),
  `scopes, from ${scopes.join(", ")}; default: all`,
  "scopes",
);
const reason = textOrNull(label, "reason");

export const installationCommands: Command[] = [
  defineCommand({
    name: "installation request",
    summary: "Requests access to a clinic for an application.",
    example: `${OF} --scopes clinic:read,appointments:read`,
    options: { ...of, scopes: someScopes },
    category: installationCategory,
    changes: installationOf,
    run: (log, { scopes, ...values }, context) =>
      requestInstallation(log, { ...toOf(values), ...omitUndefined({ scopes }) }, context),
  }),
  defineCommand({
    name: "installation approve",
    summary: "Records that a clinic administrator approves the requested access or a part of it.",
    example: `${OF} --membership 5f0e8a52-7a3c-4be5-9d0a-8a4a62f7c002`,
    options: {
      ...of,
      membership: textOrNull(uuid, "membership of the administrator; optional only in the sandbox", "uuid"),
      scopes: someScopes,
      branches: list(
        approved.branchIds.optional(),
        "the branches, separated by commas; default: all",
        "uuids",
      ),
      rateLimit: number(approved.rateLimitPerMinute.optional(), "requests per minute; default: 120"),
    },
    category: installationCategory,
    changes: installationOf,
    run: (log, { membership: membershipId, scopes, branches, rateLimit, ...values }, context) => {
      const approval = omitUndefined({ scopes, branchIds: branches, rateLimitPerMinute: rateLimit });
      return approveInstallation(log, { ...toOf(values), membershipId, ...approval }, context);
    },
  }),
  defineCommand({
    name: "installation narrow",
    summary: "Removes scopes or branches from an installation.",
    example: `${OF} --scopes clinic:read`,
    options: {
      ...of,
      scopes: someScopes,
      branches: list(
        z.array(uuid).min(1).optional(),
        "the remaining branches, separated by commas; default: unchanged",
        "uuids",
      ),
    },
    category: installationCategory,
    changes: installationOf,
    run: (log, { scopes, branches, ...values }, context) =>
      narrowInstallation(
        log,
        { ...toOf(values), ...omitUndefined({ scopes, branchIds: branches }) },
        context,
      ),
  }),
  defineCommand({
    name: "installation agree-rate",
    summary: "Sets the rate limit of an installation.",
    example: `${OF} --rate-limit 600`,
    options: { ...of, rateLimit: number(approved.rateLimitPerMinute, "requests per minute") },
    category: installationCategory,
    changes: installationOf,
    run: (log, { rateLimit: rateLimitPerMinute, ...values }, context) =>
      agreeRateLimit(log, { ...toOf(values), rateLimitPerMinute }, context),
  }),
  defineCommand({
    name: "installation revoke",
    summary:
      "Revokes an application's access to a clinic immediately. The application may request access again.",
    example: `${OF} --reason 'Not used any more'`,
    options: { ...of, reason },
    category: installationCategory,
    changes: installationOf,
    run: (log, { reason, ...values }, context) =>
      revokeInstallation(log, { ...toOf(values), reason }, context),
  }),
];
