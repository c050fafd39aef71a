import type { z } from "zod";
import { describeIssue } from "../validation/describe-issue.ts";
import { type CatalogEvent, categories } from "./catalog.ts";
import type { Category } from "./category.ts";
import { type EventMetadata, eventMetadata } from "./metadata.ts";
import { getCurrentVersion, upcast } from "./upcasters.ts";

const schemasByType = new Map<string, z.ZodType>();
for (const category of categories as readonly Category[]) {
  for (const [type, schema] of Object.entries(category.events)) {
    if (schemasByType.has(type)) throw new Error(`event type ${type} is in two categories`);
    schemasByType.set(type, schema);
  }
}

/** An event as stored in the log, before validation. */
export interface StoredEvent {
  type: string;
  data: unknown;
  metadata: unknown;
}

type ValidEvent = CatalogEvent & { metadata: EventMetadata };

/** Thrown if an event's type or schema version is unknown to this release, or its data or metadata is invalid. */
export class EventSchemaError extends Error {
  override readonly name = "EventSchemaError";
}

/**
 * Validates a stored event. Data of an earlier schema version is first converted to the current version, so that other
 * code handles only current versions.
 *
 * @returns the event with typed data and metadata
 * @throws {EventSchemaError} with a message that names the type and any invalid fields
 */
export function parseStoredEvent(storedEvent: StoredEvent): ValidEvent {
  const { type } = storedEvent;
  const schema = schemasByType.get(type);
  if (!schema) throw new EventSchemaError(`${type} is unknown to this release; use the newer release that wrote it`);
  const metadataResult = eventMetadata.safeParse(storedEvent.metadata);
  if (!metadataResult.success) throw createSchemaError(type, "metadata", metadataResult.error);
  const { schemaVersion } = metadataResult.data;
  const currentVersion = getCurrentVersion(type);
  if (schemaVersion > currentVersion)
    throw new EventSchemaError(
      `${type} has schema version ${schemaVersion}, but this release supports only up to ${currentVersion}; use the newer release that wrote it`,
    );
  const dataResult = schema.safeParse(upcast(type, schemaVersion, storedEvent.data));
  if (!dataResult.success) throw createSchemaError(type, "data", dataResult.error);
  return { type, data: dataResult.data, metadata: metadataResult.data } as ValidEvent;
}

/**
 * Validates an event before it is appended, because an unreadable event in the log stops all consumers.
 *
 * @throws {EventSchemaError}
 */
export function requireValidEvent({ type, data }: { type: string; data: unknown }): void {
  const parseResult = schemasByType.get(type)?.safeParse(data);
  if (!parseResult) throw new EventSchemaError(`${type} is not in the catalog`);
  if (!parseResult.success) throw createSchemaError(type, "data", parseResult.error);
}

function createSchemaError(type: string, memberName: string, error: z.ZodError): EventSchemaError {
  const problems = error.issues.map((issue) => `${[memberName, ...issue.path].join(".")} ${describeIssue(issue)}`);
  return new EventSchemaError(`${type} does not fit its schema: ${problems.join("; ")}`);
}
