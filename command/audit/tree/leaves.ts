import { toCanonicalJson } from "../export/json.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import { getCategoryName } from "../queries/query-fields.ts";
import { hashLeaf } from "./merkle-tree.ts";

export interface Leaf {
  event: LeafEvent;
  hash: Buffer;
}

/**
 * An event as in an export, but without `problem`. That member depends on the release, and a leaf must be the same in
 * all releases.
 */
export type LeafEvent = Omit<AuditEvent, "problem">;

/**
 * Categories whose events are always leaves. Tree heads depend on this list, so it must never change. Events of newer
 * categories are leaves if their metadata is complete.
 */
const LEAF_CATEGORIES = new Set([
  ...["clinic", "service", "resource", "membership", "staff", "portalUser", "customer", "animal", "appointment"],
  ...["hold", "queueTicket", "partnerApplication", "installation", "webhookEndpoint", "webhookEndpointPlaces"],
  ...["sandbox", "auditor", "auditAccess", "auditTree", "quarantine"],
]);

/**
 * Returns true if an event is a leaf. Events of other programs are not leaves, because these programs may delete them.
 * The rule must not depend on the event catalog. Otherwise, an older release would omit events of newer categories from
 * the tree.
 */
export function isLeaf(event: AuditEvent): boolean {
  if (LEAF_CATEGORIES.has(getCategoryName(event.stream))) return true;
  const { occurredAt, actor, correlationId, causationId, schemaVersion } = event;
  return [occurredAt, actor, correlationId, causationId, schemaVersion].every((value) => value !== null);
}

/** Returns the leaf of an event. Never throws, because all audit events have a canonical form. */
export function toLeaf({ problem: _, ...event }: AuditEvent): Leaf {
  return { event, hash: hashLeaf(toCanonicalJson(event)) };
}
