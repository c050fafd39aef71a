import { z } from "zod";
import type { PersonalDataCategory } from "./person.ts";

/** States that a field of an event contains personal data, or why it does not. */
export type Declaration =
  | {
      kind: "personal";
      category: PersonalDataCategory;
      neutralValue: string | null;
      /**
       * True for a value that alone reveals nothing about a person, such as a hash. It is encrypted only if the event
       * also has other personal data.
       */
      isDerived: boolean;
    }
  | { kind: "notPersonal"; reason: string };

/** Declarations by schema. A copy of a declared schema has the same declaration. */
const declarations = z.registry<Declaration>();

/** Neutral value of a personal text field that must not be null. */
export const ERASED_TEXT = "(erased)";

/**
 * Declares a field of an event as personal data. The log stores the field encrypted.
 *
 * @param neutralValue value that readers get after the data key was destroyed; must match the schema
 * @param options.isDerived see {@link Declaration}
 */
export function personal<Schema extends z.ZodType<string | null>>(
  category: PersonalDataCategory,
  schema: Schema,
  neutralValue: z.output<Schema>,
  { isDerived } = { isDerived: false },
): Schema {
  return declare(schema, { kind: "personal", category, neutralValue, isDerived });
}

/**
 * Declares that a field contains no personal data, although it can contain any text.
 *
 * @param reason what the field contains instead
 */
export function notPersonal<Schema extends z.ZodType>(schema: Schema, reason: string): Schema {
  return declare(schema, { kind: "notPersonal", reason });
}

/** Returns the declaration of a field's schema; undefined if the field is not declared. */
export function findDeclaration(schema: z.ZodType): Declaration | undefined {
  return declarations.get(schema);
}

/** Declares a copy of the schema, because several fields may share one schema. */
function declare<Schema extends z.ZodType>(schema: Schema, declaration: Declaration): Schema {
  const declaredSchema = schema.clone();
  declarations.add(declaredSchema, declaration);
  return declaredSchema;
}
