import { option } from "../../../shared/command-line/option.ts";
import { auditorStreams } from "../../../shared/domain/events/audit.ts";
import { registerAuditor, revokeAuditor } from "../../operations/auditor-operations.ts";
import { type DomainCommand, defineDomainCommand } from "../domain-command.ts";

const auditorFields = auditorStreams.events.AuditorRegistered.shape;

export const auditorCommands: DomainCommand[] = [
  defineDomainCommand(auditorStreams, {
    name: "auditor register",
    summary: "Registers an auditor, who may read recorded events. The auditor's credential is shown only once.",
    example: "--name 'Ada Example' --clinics 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001",
    options: {
      id: option.newId("the new auditor's id"),
      name: option.text(auditorFields.name, "name"),
      clinics: option.list(
        auditorFields.clinicIds.default(null),
        "clinics whose records the auditor may see, separated by commas; default: all records, including those that belong to no clinic",
        "uuids",
      ),
      expiresAt: option.nullableText(auditorFields.expiresAt, "time at which the credential expires", "date-time"),
    },
    isImportable: false,
    async run(log, { id: auditorId, name, clinics: clinicIds, expiresAt }, context) {
      const input = { auditorId, name, clinicIds, expiresAt };
      const { credential, ...commandResult } = await registerAuditor(log, input, context);
      return { ...commandResult, extraValues: { credential } };
    },
  }),
  defineDomainCommand(auditorStreams, {
    name: "auditor revoke",
    summary: "Revokes an auditor's access permanently, effective from the next request.",
    example: "--id 9c1d6c1e-5b60-4a7b-8a38-6f2f6a1e0003 --reason 'Audit closed'",
    options: {
      id: option.id("the auditor"),
      reason: option.nullableText(auditorStreams.events.AuditorRevoked.shape.reason, "reason"),
    },
    run: (log, { id: auditorId, reason }, context) => revokeAuditor(log, { auditorId, reason }, context),
  }),
];
