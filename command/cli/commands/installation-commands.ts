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
const someScopes = list(z.array(scope).min(1).optional(), `of ${scopes.join(", ")}; left out: all`, "scopes");
const reason = textOrNull(label, "why");

export const installationCommands: Command[] = [
  defineCommand({
    name: "installation request",
    summary: "Asks a clinic for an application's access.",
    example: `${OF} --scopes clinic:read,appointments:read`,
    options: { ...of, scopes: someScopes },
    category: installationCategory,
    changes: installationOf,
    run: (log, { scopes, ...values }, context) =>
      requestInstallation(log, { ...toOf(values), ...omitUndefined({ scopes }) }, context),
  }),
  defineCommand({
    name: "installation approve",
    summary: "Records a clinic administrator's approval of what was asked for, or of less.",
    example: `${OF} --membership 5f0e8a52-7a3c-4be5-9d0a-8a4a62f7c002`,
    options: {
      ...of,
      membership: textOrNull(uuid, "the administrator's membership; left out only in the sandbox", "uuid"),
      scopes: someScopes,
      branches: list(approved.branchIds.optional(), "the branches, with commas; left out: all", "uuids"),
      rateLimit: number(approved.rateLimitPerMinute.optional(), "requests a minute; 120 where left out"),
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
    summary: "Takes scopes or branches of an installation away.",
    example: `${OF} --scopes clinic:read`,
    options: {
      ...of,
      scopes: someScopes,
      branches: list(
        z.array(uuid).min(1).optional(),
        "the branches that stay, with commas; left out: as before",
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
    summary: "Agrees on an installation's requests a minute.",
    example: `${OF} --rate-limit 600`,
    options: { ...of, rateLimit: number(approved.rateLimitPerMinute, "requests a minute") },
    category: installationCategory,
    changes: installationOf,
    run: (log, { rateLimit: rateLimitPerMinute, ...values }, context) =>
      agreeRateLimit(log, { ...toOf(values), rateLimitPerMinute }, context),
  }),
  defineCommand({
    name: "installation revoke",
    summary: "Ends an application's access to a clinic, at once; it may ask again.",
    example: `${OF} --reason 'Not used any more'`,
    options: { ...of, reason },
    category: installationCategory,
    changes: installationOf,
    run: (log, { reason, ...values }, context) =>
      revokeInstallation(log, { ...toOf(values), reason }, context),
  }),
];
