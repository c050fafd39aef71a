import { z } from "zod";
import { type CatalogEvent, categories } from "../events/catalog.ts";
import type { Category } from "../events/category.ts";
import { type Declaration, findDeclaration } from "./declaration.ts";
import type { PersonalDataCategory } from "./person.ts";

/** Personal fields of an event type. All fields belong to one category, and all fields of an event to one person. */
interface PersonalFields {
  category: PersonalDataCategory;
  fields: readonly PersonalField[];
  neutralValues: PersonalData;
  /** Schema of the values of all fields. Values may be missing. */
  schema: z.ZodType<PersonalData>;
}

interface PersonalField {
  name: string;
  neutralValue: string | null;
  isDerived: boolean;
}

/** Values of an event's personal fields, by name. */
export type PersonalData = Record<string, unknown>;

const personalFieldsByType = new Map<string, PersonalFields>();
for (const { events } of categories as readonly Category[]) {
  for (const [type, schema] of Object.entries(events)) {
    const personalFields = collectPersonalFields(type, schema);
    if (personalFields) personalFieldsByType.set(type, personalFields);
  }
}

/** Returns the personal fields of an event type; undefined if it has none. */
export function findPersonalFields(type: string): PersonalFields | undefined {
  return personalFieldsByType.get(type);
}

/**
 * Separates the personal data of an event from its other data.
 *
 * @returns undefined if the event has no personal data, or if all its personal fields have neutral values
 */
export function separatePersonalData({
  type,
  data,
}: CatalogEvent): { otherData: Record<string, unknown>; personalData: PersonalData } | undefined {
  const personalFields = personalFieldsByType.get(type)?.fields;
  const values = data as Record<string, unknown>;
  if (!personalFields?.some(({ name, neutralValue, isDerived }) => !isDerived && values[name] !== neutralValue))
    return undefined;
  const otherData = { ...values };
  const personalData: PersonalData = {};
  for (const { name } of personalFields) {
    personalData[name] = values[name];
    delete otherData[name];
  }
  return { otherData, personalData };
}

/** Returns data in which each missing personal field has its neutral value. */
export function addNeutralValues(type: string, data: object): Record<string, unknown> {
  // A spread of two objects would take three times as long as the validation of the result.
  return Object.assign({}, personalFieldsByType.get(type)?.neutralValues, data);
}

function collectPersonalFields(type: string, schema: z.ZodType): PersonalFields | undefined {
  if (!(schema instanceof z.ZodObject)) return undefined;
  const fields: PersonalField[] = [];
  const schemas: Record<string, z.ZodType> = {};
  const categoriesOfFields = new Set<PersonalDataCategory>();
  for (const [name, fieldSchema] of Object.entries(schema.shape as Record<string, z.ZodType>)) {
    const declaration: Declaration | undefined = findDeclaration(fieldSchema);
    if (declaration?.kind !== "personal") continue;
    const { category, neutralValue, isDerived } = declaration;
    categoriesOfFields.add(category);
    fields.push({ name, neutralValue, isDerived });
    schemas[name] = fieldSchema.optional();
  }
  const [category, otherCategory] = categoriesOfFields;
  if (otherCategory) throw new Error(`${type} has personal fields of two categories`);
  const neutralValues = Object.fromEntries(fields.map(({ name, neutralValue }) => [name, neutralValue]));
  return category && { category, fields, neutralValues, schema: z.object(schemas) };
}
