import { findPersonalFields, type PersonalData } from "../personal-data/personal-fields.ts";
import { createSchemaError } from "./stored-event.ts";
import { upcast } from "./upcasters.ts";

/**
 * Returns the data of an event with the decrypted values of its personal fields, instead of the neutral values. The
 * values may belong to an earlier schema version.
 *
 * @throws {EventSchemaError} if a value is invalid
 */
export function revealPersonalData(
  { type, data, metadata }: { type: string; data: object; metadata: { schemaVersion: number } },
  personalData: PersonalData,
): object {
  const values = upcast(type, metadata.schemaVersion, personalData);
  const parseResult = findPersonalFields(type)?.schema.safeParse(values);
  if (!parseResult) return data;
  if (!parseResult.success) throw createSchemaError(type, "data", parseResult.error);
  return Object.assign({}, data, parseResult.data);
}
