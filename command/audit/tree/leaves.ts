import { categories } from "../../../shared/domain/events/catalog.ts";
import { toCanonicalJson } from "../export/json.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import { type ScanOptions, scanLog } from "../log/scan.ts";
import { hashLeaf } from "./hash.ts";

/** An event as a leaf of the tree. */
export interface Leaf {
  event: LeafEvent;
  hash: Buffer;
}

/**
 * The event in the form in which exports contain it, except that the member `problem` is always missing. The problem
 * depends on the release that reads the event, and the leaf must not.
 */
export type LeafEvent = Omit<AuditEvent, "problem">;

/** Streams whose events are leaves. Streams of other programs are not, because these programs may delete them. */
const LEAF_PREFIXES = categories.map(({ name }) => `${name}-`);

/**
 * Yields the leaves of the tree in log order. The options are those of {@link scanLog}.
 *
 * @throws {LogUnavailableError}
 */
export async function* readLeaves(options: Omit<ScanOptions, "prefixes">): AsyncGenerator<Leaf, void> {
  for await (const { auditEvent } of scanLog({ ...options, prefixes: LEAF_PREFIXES })) yield toLeaf(auditEvent);
}

/** Returns the leaf of an event. */
export function toLeaf({ problem: _, ...event }: AuditEvent): Leaf {
  return { event, hash: hashLeaf(toCanonicalJson(event)) };
}
