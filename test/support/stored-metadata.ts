import { randomUUID } from "node:crypto";
import type { NewEvent } from "../../shared/eventstore/log.ts";

/**
 * Creates metadata for an event that a test appends directly to the log. The actor is an operator, and there is no
 * clinic.
 */
export function createStoredMetadata() {
  return {
    $correlationId: randomUUID(),
    $causationId: randomUUID(),
    actor: { type: "operator" as const, id: "test" },
    clinicId: null,
    environment: null,
    schemaVersion: 1,
    occurredAt: "2030-01-02T03:04:05.678Z",
  };
}

/** Creates an event without personal data for a stream of the category `auditor`. */
export function createRevocation(): NewEvent {
  const { schemaVersion: _, ...metadata } = createStoredMetadata();
  const event = { type: "AuditorRevoked" as const, data: { auditorId: randomUUID(), reason: null } };
  return { id: randomUUID(), event, metadata };
}
