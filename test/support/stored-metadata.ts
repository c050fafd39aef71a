import { randomUUID } from "node:crypto";

/** The metadata of an event that a test puts into the log by itself: an operator's, of no clinic. */
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
