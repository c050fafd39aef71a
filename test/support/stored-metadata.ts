import { randomUUID } from "node:crypto";
import { categories } from "../../shared/domain/events/catalog.ts";
import { type Category, toStreamName } from "../../shared/domain/events/category.ts";
import type { NewEvent } from "../../shared/eventstore/log.ts";

/** Returns the stream that an event belongs to. Returns undefined if the event is not in the catalog. */
export function findStream(event: { type: string; data: unknown }): string | undefined {
  const category = (categories as readonly Category[]).find(({ events }) => event.type in events);
  return category && toStreamName(category, category.getStreamId(event));
}

/** Clinic of each stream for which metadata was created. */
const clinicIds = new Map<string, string>();

/**
 * Creates metadata for an event that a test appends directly. The actor is an operator. The clinic is that of the
 * event, or of an earlier event in its stream.
 *
 * @param event if undefined, the metadata has no clinic
 */
export function createStoredMetadata(event?: { type: string; data: unknown }) {
  const stream = event && findStream(event);
  const { clinicId = clinicIds.get(stream ?? "") ?? null } = (event?.data ?? {}) as { clinicId?: string | null };
  if (stream && clinicId !== null) clinicIds.set(stream, clinicId);
  return {
    $correlationId: randomUUID(),
    $causationId: randomUUID(),
    actor: { type: "operator" as const, id: "test" },
    clinicId,
    environment: null,
    schemaVersion: 1,
    occurredAt: "2030-01-02T03:04:05.678Z",
  };
}

/** Creates an event without personal data. @param stream stream of an auditor */
export function createRevocation(stream: string): NewEvent {
  const { schemaVersion: _, ...metadata } = createStoredMetadata();
  const event = { type: "AuditorRevoked" as const, data: { auditorId: stream.slice("auditor-".length), reason: null } };
  return { id: randomUUID(), event, metadata };
}
