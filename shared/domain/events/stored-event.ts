import type { z } from "zod";
import { ENCRYPTED_MEMBER, type EncryptedPersonalData, encryptedPersonalData } from "../personal-data/encrypted.ts";
import { addNeutralValues, findPersonalFields } from "../personal-data/personal-fields.ts";
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

type ValidEvent = CatalogEvent & {
  metadata: EventMetadata;
  /** Encrypted personal fields. While they are not decrypted, the fields have neutral values. */
  encrypted?: EncryptedPersonalData;
};

/** Thrown if an event's type or schema version is unknown to this release, or its data or metadata is invalid. */
export class EventSchemaError extends Error {
  override readonly name = "EventSchemaError";
}

/**
 * Validates a stored event. Data of an earlier schema version is first converted to the current version, so that other
 * code handles only current versions. Encrypted personal fields get neutral values.
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
  const { data, encrypted } = separateEncrypted(type, storedEvent.data);
  const upcastData = upcast(type, schemaVersion, data);
  const dataResult = schema.safeParse(encrypted ? addNeutralValues(type, upcastData as object) : upcastData);
  if (!dataResult.success) throw createSchemaError(type, "data", dataResult.error);
  const validEvent = { type, data: dataResult.data, metadata: metadataResult.data } as ValidEvent;
  if (encrypted) validEvent.encrypted = encrypted;
  return validEvent;
}

/** Separates the encrypted personal fields from the other data of a stored event. */
function separateEncrypted(type: string, data: unknown): { data: unknown; encrypted?: EncryptedPersonalData } {
  if (typeof data !== "object" || data === null || !(ENCRYPTED_MEMBER in data) || !findPersonalFields(type))
    return { data };
  const { [ENCRYPTED_MEMBER]: encrypted, ...otherData } = data;
  const parseResult = encryptedPersonalData.safeParse(encrypted);
  if (!parseResult.success) throw createSchemaError(type, `data.${ENCRYPTED_MEMBER}`, parseResult.error);
  return { data: otherData, encrypted: parseResult.data };
}

/**
 * Validates an event before it is appended, because an unreadable event makes its stream unusable.
 *
 * @throws {EventSchemaError}
 */
export function requireValidEvent({ type, data }: { type: string; data: unknown }): void {
  const parseResult = schemasByType.get(type)?.safeParse(data);
  if (!parseResult) throw new EventSchemaError(`${type} is not in the catalog`);
  if (!parseResult.success) throw createSchemaError(type, "data", parseResult.error);
}

/** Creates the error for data that does not match the schema of its event type. */
export function createSchemaError(type: string, memberName: string, error: z.ZodError): EventSchemaError {
  const problems = error.issues.map((issue) => `${[memberName, ...issue.path].join(".")} ${describeIssue(issue)}`);
  return new EventSchemaError(`${type} does not fit its schema: ${problems.join("; ")}`);
}
