import { randomUUID } from "node:crypto";

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
