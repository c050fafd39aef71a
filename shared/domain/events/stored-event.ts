import type { z } from "zod";
import { ENCRYPTED_MEMBER, type EncryptedPersonalData, encryptedPersonalData } from "../personal-data/encrypted.ts";
import { addNeutralValues, findPersonalFields } from "../personal-data/personal-fields.ts";
import { describeIssue } from "../validation/describe-issue.ts";
import { type CatalogEvent, categories } from "./catalog.ts";
import { type Category, toStreamName } from "./category.ts";
import { type EventMetadata, eventMetadata } from "./metadata.ts";
import { getCurrentVersion, upcast } from "./upcasters.ts";

const categoriesByType = new Map<string, Category>();
for (const category of categories as readonly Category[]) {
  for (const type of Object.keys(category.events)) {
    if (categoriesByType.has(type)) throw new Error(`event type ${type} is in two categories`);
    categoriesByType.set(type, category);
  }
}

/** An event as stored in the log, before validation. */
export interface StoredEvent {
  streamId: string;
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
 * code handles only current versions. Encrypted personal fields get neutral values. Stream, metadata and data must name
 * the same object and clinic, because readers may use any of them.
 *
 * @returns the event with typed data and metadata
 * @throws {EventSchemaError} with a message that names the type and any invalid fields
 */
export function parseStoredEvent(storedEvent: StoredEvent): ValidEvent {
  const { type } = storedEvent;
  const category = categoriesByType.get(type);
  const schema = category?.events[type];
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
  requireAgreement(category, storedEvent.streamId, validEvent, metadataResult.data);
  if (encrypted) validEvent.encrypted = encrypted;
  return validEvent;
}

/**
 * Requires that an event's stream belongs to the object in its data, and that data and metadata have the same clinic.
 *
 * @throws {EventSchemaError}
 */
function requireAgreement(
  category: Category,
  stream: string,
  event: CatalogEvent,
  metadata: Pick<EventMetadata, "clinicId">,
): void {
  if (stream !== toStreamName(category, category.getStreamId(event)))
    throw new EventSchemaError(`${event.type} is in the stream of another object`);
  if ("clinicId" in event.data && event.data.clinicId !== metadata.clinicId)
    throw new EventSchemaError(`${event.type} names another clinic than its metadata`);
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
export function requireValidEvent(
  stream: string,
  event: CatalogEvent,
  metadata: Pick<EventMetadata, "clinicId">,
): void {
  const { type, data } = event;
  const category = categoriesByType.get(type);
  const parseResult = category?.events[type]?.safeParse(data);
  if (!category || !parseResult) throw new EventSchemaError(`${type} is not in the catalog`);
  if (!parseResult.success) throw createSchemaError(type, "data", parseResult.error);
  requireAgreement(category, stream, event, metadata);
}

/** Creates the error for data that does not match the schema of its event type. */
export function createSchemaError(type: string, memberName: string, error: z.ZodError): EventSchemaError {
  const problems = error.issues.map((issue) => `${[memberName, ...issue.path].join(".")} ${describeIssue(issue)}`);
  return new EventSchemaError(`${type} does not fit its schema: ${problems.join("; ")}`);
}
