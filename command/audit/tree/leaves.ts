import { toCanonicalJson } from "../export/json.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import { getCategoryName } from "../queries/query-fields.ts";
import { hashLeaf } from "./merkle-tree.ts";

export interface Leaf {
  event: LeafEvent;
  hash: Buffer;
}

/**
 * The event in the form in which exports contain it, except that the member `problem` is always missing. The problem
 * depends on the release that reads the event, but a leaf must be the same in all releases.
 */
export type LeafEvent = Omit<AuditEvent, "problem">;

/**
 * Categories whose events are always leaves. Tree heads depend on this list, so it must never change. Events of later
 * categories are leaves because of their metadata.
 */
const LEAF_CATEGORIES = new Set([
  ...["clinic", "service", "resource", "membership", "staff", "portalUser", "customer", "animal", "appointment"],
  ...["hold", "queueTicket", "partnerApplication", "installation", "webhookEndpoint", "webhookEndpointPlaces"],
  ...["sandbox", "auditor", "auditAccess", "auditTree", "quarantine"],
]);

/**
 * Returns true if an event is a leaf. Events of other programs are not leaves, because these programs may delete them.
 * The rule must not depend on the event catalog: a release that does not know a later category would publish trees
 * without its events.
 */
export function isLeaf(event: AuditEvent): boolean {
  if (LEAF_CATEGORIES.has(getCategoryName(event.stream))) return true;
  const { occurredAt, actor, correlationId, causationId, schemaVersion } = event;
  return [occurredAt, actor, correlationId, causationId, schemaVersion].every((value) => value !== null);
}

/** Returns the leaf of an event. All texts and numbers of an audit event have a canonical form. */
export function toLeaf({ problem: _, ...event }: AuditEvent): Leaf {
  return { event, hash: hashLeaf(toCanonicalJson(event)) };
}
