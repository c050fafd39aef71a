import { z } from "zod";
import { ERASED_TEXT, notPersonal, personal } from "../personal-data/declaration.ts";
import { completeEvents, defineCategory, type EventOf, finiteTransitions, limitExcept } from "./category.ts";
import { erasureRecord } from "./erasure.ts";
import { freeForm, instant, label, uuid } from "./fields.ts";

/**
 * Events of an auditor, who may read the records of clinics but not change them. Only an unsalted SHA-256 (hex) of the
 * credential's secret is stored. That is sufficient, because the secret has 256 random bits. Stream id: id of the
 * auditor.
 */
export const auditorStreams = defineCategory(
  "auditor",
  "auditorId",
  limitExcept("AuditorRevoked", "AuditorDataErased"),
  {
    AuditorRegistered: z.object({
      auditorId: uuid,
      name: personal("contact", label, ERASED_TEXT),
      secretHash: notPersonal(z.string().length(64), "hash of a random secret"),
      /** Clinics whose records the auditor may read; null for all clinics. */
      clinicIds: z.array(uuid).min(1).max(1_000).nullable(),
      /** Time at which the credential expires; null if it does not expire. */
      expiresAt: instant.nullable().describe("time at which the credential expires"),
    }),
    AuditorRevoked: z.object({ auditorId: uuid, reason: personal("notes", label.nullable(), null) }),
    AuditorDataErased: z.object({ auditorId: uuid, ...erasureRecord }),
  },
);
export type AuditorEvent = EventOf<typeof auditorStreams>;

/** Kinds of access to the records of clinics. */
const auditAction = z.enum([
  ...["sign-in", "events", "state", "diff", "replay", "deliveries", "export", "prove-inclusion"],
  ...["clinics", "search", "appointments", "accesses", "disclose", "overlaps", "clinic-state", "readers"],
] as const);
export type AuditAction = z.infer<typeof auditAction>;

/**
 * Events of audited accesses to the records of clinics. Each event is appended before the access returns any data.
 * Stream id: id of the access.
 */
export const auditAccessStreams = defineCategory("auditAccess", "accessId", finiteTransitions, {
  AuditAccessed: z.object({
    accessId: uuid,
    /** Id of the auditor; null if an operator used the command line. The metadata then contains the operator's name. */
    auditorId: uuid.nullable(),
    action: auditAction,
    /** Query parameters as received. A searched name is replaced by a placeholder, because it is personal data. */
    asked: notPersonal(freeForm, "ids and times of a query"),
    /** Ids in the response. Empty if the access is recorded before the response is known. */
    found: z.array(uuid),
    /** Clinics that the query names or whose records are in `found`. */
    clinicIds: z.array(uuid),
  }),
});
export type AuditAccessEvent = EventOf<typeof auditAccessStreams>;

/**
 * Signed tree heads of the Merkle tree over the log, oldest first. There is only one such stream. Stream id: `heads`.
 */
export const auditTreeStreams = defineCategory("auditTree", () => "heads", completeEvents, {
  TreeHeadPublished: z.object({
    /** Id of the tree. A copy of the log needs a new tree with a new id. */
    treeId: uuid,
    /** Number of leaves. Each event in a stream of the catalog is a leaf, including earlier tree heads. */
    size: z.int().min(1),
    /** JWS that contains the tree head and its signature. */
    signature: z.string().regex(/^[\w-]+\.[\w-]+\.[\w-]+$/, "must be a signature (JWS)"),
  }),
});
export type AuditTreeEvent = EventOf<typeof auditTreeStreams>;
