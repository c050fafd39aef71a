import { z } from "zod";
import { defineCategory, type EventOf } from "./category.ts";
import { freeForm, instant, label, uuid } from "./fields.ts";

/**
 * Somebody who may look at what is recorded, and change nothing. The secret of the credential has 256 random bits, so
 * a plain SHA-256 (hex) of it is kept, never the secret. Stream id: the auditor's.
 */
export const auditorCategory = defineCategory("auditor", {
  AuditorRegistered: z.object({
    auditorId: uuid,
    name: label,
    secretHash: z.string().length(64),
    /** Null: every clinic, and what belongs to none. */
    clinicIds: z.array(uuid).min(1).max(1_000).nullable(),
    /** From then on the credential is worth nothing; null: it has no end. */
    expiresAt: instant.nullable(),
  }),
  AuditorRevoked: z.object({ auditorId: uuid, reason: label.nullable() }),
});
export type AuditorEvent = EventOf<typeof auditorCategory>;

/** What can be asked of the record. */
const auditAction = z.enum(["sign-in", "events", "state", "diff", "replay", "deliveries", "export"]);
export type AuditAction = z.infer<typeof auditAction>;

/** Somebody looked, or is about to: written before anything is answered. Stream id: the access's own. */
export const auditAccessCategory = defineCategory("auditAccess", {
  AuditAccessed: z.object({
    accessId: uuid,
    /** Null for an operator at the command line, whom the metadata names. */
    auditorId: uuid.nullable(),
    action: auditAction,
    /** What was asked, as it was asked. */
    asked: freeForm,
  }),
});
export type AuditAccessEvent = EventOf<typeof auditAccessCategory>;
