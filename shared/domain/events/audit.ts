import { z } from "zod";
import { ERASED_TEXT, notPersonal, personal } from "../personal-data/declaration.ts";
import { defineCategory, type EventOf } from "./category.ts";
import { freeForm, instant, label, uuid } from "./fields.ts";

/**
 * Events of an auditor, who may read the records of clinics but not change them. Only an unsalted SHA-256 (hex) of the
 * credential's secret is stored. That is sufficient, because the secret has 256 random bits. Stream id: id of the
 * auditor.
 */
export const auditorCategory = defineCategory("auditor", {
  AuditorRegistered: z.object({
    auditorId: uuid,
    name: personal("contact", label, ERASED_TEXT),
    secretHash: notPersonal(z.string().length(64), "hash of a random secret"),
    /** Clinics whose records the auditor may read; null for all clinics. */
    clinicIds: z.array(uuid).min(1).max(1_000).nullable(),
    /** Time at which the credential expires; null if it does not expire. */
    expiresAt: instant.nullable(),
  }),
  AuditorRevoked: z.object({ auditorId: uuid, reason: personal("notes", label.nullable(), null) }),
});
export type AuditorEvent = EventOf<typeof auditorCategory>;

/** Kinds of access to the records of clinics. */
export const auditAction = z.enum([
  ...["sign-in", "events", "state", "diff", "replay", "deliveries", "export"],
  ...["clinics", "latest", "search", "appointments", "names", "accesses", "disclose"],
] as const);
export type AuditAction = z.infer<typeof auditAction>;

/**
 * Events of audited accesses to the records of clinics. Each event is appended before the access returns any data.
 * Stream id: id of the access.
 */
export const auditAccessCategory = defineCategory("auditAccess", {
  AuditAccessed: z.object({
    accessId: uuid,
    /** Id of the auditor; null if an operator used the command line. The metadata then contains the operator's name. */
    auditorId: uuid.nullable(),
    action: auditAction,
    /** Query parameters as received. A searched name is replaced by a placeholder, because it is personal data. */
    asked: notPersonal(freeForm, "ids and times of a query"),
    /** Ids in the response, if the response is known before the access is recorded; otherwise empty. */
    found: z.array(uuid),
    /** Clinics that the query names or whose records are in `found`. Empty for accesses recorded in version 1. */
    clinicIds: z.array(uuid),
  }),
});
export type AuditAccessEvent = EventOf<typeof auditAccessCategory>;
