import * as auditors from "../../shared/domain/audit/auditor.ts";
import { auditorStreams } from "../../shared/domain/events/audit.ts";
import { defineRegistration } from "./credentials.ts";
import { declareCommand, defineCommandOutsideClinics } from "./define-command.ts";

/** First characters of an auditor's credential. */
export const AUDITOR_PREFIX = "aud";

/**
 * Registers an auditor. Only the result contains the credential.
 *
 * @throws {DomainError} `auditor_exists`, `clinic_not_found`, `expiry_passed`
 */
export const registerAuditor = defineRegistration(AUDITOR_PREFIX, auditors.auditorAggregate, auditors.registerAuditor);

const { AuditorRegistered, AuditorRevoked } = auditorStreams.events;

export const registerAuditorCommand = declareCommand("auditor register", auditors.auditorAggregate, {
  summary: "Registers an auditor, who may read recorded events. The auditor's credential is shown only once.",
  input: AuditorRegistered.omit({ secretHash: true }).extend({
    clinicIds: AuditorRegistered.shape.clinicIds.describe(
      "ids of the clinics whose records the auditor may see; default: all records, including those of no clinic",
    ),
  }),
  creates: "auditorId",
  isImportable: false,
  run: ({ log }, registration, context) => registerAuditor(log, registration, context),
  example: { name: "Ada Example", clinicIds: ["0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001"] },
});

export const revokeAuditor = defineCommandOutsideClinics("auditor revoke", auditors.auditorAggregate, {
  summary: "Revokes an auditor's access permanently, effective from the next request.",
  input: AuditorRevoked,
  decide: auditors.revokeAuditor,
  example: { reason: "Audit closed" },
});
