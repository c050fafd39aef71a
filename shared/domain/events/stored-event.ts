import type { z } from "zod";
import { describeIssue } from "../validation/describe-issue.ts";
import { type CatalogEvent, categories } from "./catalog.ts";
import type { Category } from "./category.ts";
import { type EventMetadata, eventMetadata } from "./metadata.ts";
import { currentVersion, upcast } from "./upcasters.ts";

const schemas = new Map<string, z.ZodType>();
for (const category of categories as readonly Category[]) {
  for (const [type, schema] of Object.entries(category.events)) {
    if (schemas.has(type)) throw new Error(`event type ${type} stands in two categories`);
    schemas.set(type, schema);
  }
}

/** An event as the log holds it, before its shape is known. */
export interface StoredEvent {
  type: string;
  data: unknown;
  metadata: unknown;
}

/** A stored event that this release cannot read: its type is unknown, or its schema does not accept it. */
export class EventSchemaError extends Error {
  override readonly name = "EventSchemaError";
}

/**
 * Reads a stored event by the catalog: data that was written by a former version of its schema is brought into the
 * present form first, so that nobody else knows of former versions.
 *
 * @returns the event with typed data and metadata
 * @throws {EventSchemaError} if the data or metadata do not fit the schema, naming type and field, and if a newer
 *   release wrote the event: its type is unknown here, or its schema version is
 */
export function parseStoredEvent(stored: StoredEvent): CatalogEvent & { metadata: EventMetadata } {
  const schema = schemas.get(stored.type);
  if (!schema) throw unknownType(stored.type);
  const metadata = eventMetadata.safeParse(stored.metadata);
  if (!metadata.success) throw schemaError(stored.type, "metadata", metadata.error);
  const { schemaVersion } = metadata.data;
  const known = currentVersion(stored.type);
  if (schemaVersion > known) throw newerVersion(stored.type, schemaVersion, known);
  const data = schema.safeParse(upcast(stored.type, schemaVersion, stored.data));
  if (!data.success) throw schemaError(stored.type, "data", data.error);
  return { type: stored.type, data: data.data, metadata: metadata.data } as CatalogEvent & {
    metadata: EventMetadata;
  };
}

/**
 * Refuses to write what could not be read again: one such event would stop everybody who follows the log.
 *
 * @throws {EventSchemaError}
 */
export function requireFit({ type, data }: { type: string; data: unknown }): void {
  const result = schemas.get(type)?.safeParse(data);
  if (!result) throw new EventSchemaError(`${type} is not in the catalog`);
  if (!result.success) throw schemaError(type, "data", result.error);
}

function unknownType(type: string): EventSchemaError {
  return new EventSchemaError(
    `${type} is not in the catalog of this release: run the newer release that wrote it`,
  );
}

function newerVersion(type: string, version: number, known: number): EventSchemaError {
  return new EventSchemaError(
    `${type} is of schema version ${version}, and this release knows none after ${known}: run the newer release that wrote it`,
  );
}

function schemaError(type: string, part: string, error: z.ZodError): EventSchemaError {
  const fields = error.issues.map((issue) => `${[part, ...issue.path].join(".")} ${describeIssue(issue)}`);
  return new EventSchemaError(`${type} does not fit its schema: ${fields.join("; ")}`);
}
