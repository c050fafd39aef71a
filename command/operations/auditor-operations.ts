import * as auditors from "../../shared/domain/audit/auditor.ts";
import { auditorAggregate } from "../../shared/domain/audit/auditor.ts";
import { type AuditorEvent, auditorStreams } from "../../shared/domain/events/audit.ts";
import type { DataOf } from "../../shared/domain/events/category.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import type { CommandContext } from "../handling/handle.ts";
import { registerOwner } from "./credentials.ts";
import { declareCommand, defineCommandOutsideClinics } from "./define-command.ts";

/** First characters of an auditor's credential. */
export const AUDITOR_PREFIX = "aud";

/**
 * Registers an auditor. Only the result contains the credential.
 *
 * @throws {DomainError} `auditor_exists`, `clinic_not_found`, `expiry_passed`
 */
export function registerAuditor(
  log: EventLog,
  auditor: Omit<DataOf<AuditorEvent, "AuditorRegistered">, "secretHash">,
  context: CommandContext,
) {
  const owner = { prefix: AUDITOR_PREFIX, id: auditor.auditorId, clinicIds: auditor.clinicIds };
  const decide = (secretHash: string) => auditors.registerAuditor({ ...auditor, secretHash }, context.now);
  return registerOwner(log, auditorAggregate, owner, decide, context);
}

const { AuditorRegistered, AuditorRevoked } = auditorStreams.events;

export const registerAuditorCommand = declareCommand("auditor register", auditorAggregate, {
  summary: "Registers an auditor, who may read recorded events. The auditor's credential is shown only once.",
  input: AuditorRegistered.omit({ secretHash: true }).extend({
    clinicIds: AuditorRegistered.shape.clinicIds.describe(
      "ids of the clinics whose records the auditor may see; default: all records, including those of no clinic",
    ),
  }),
  creates: "auditorId",
  isImportable: false,
  async run({ log }, registration, context) {
    const { credential, ...result } = await registerAuditor(log, registration, context);
    return { ...result, secrets: { credential } };
  },
  example: { name: "Ada Example", clinicIds: ["0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001"] },
});

export const revokeAuditor = defineCommandOutsideClinics("auditor revoke", auditorAggregate, {
  summary: "Revokes an auditor's access permanently, effective from the next request.",
  input: AuditorRevoked,
  decide: auditors.revokeAuditor,
  example: { reason: "Audit closed" },
});
