import { z } from "zod";
import { uuid } from "../../../shared/domain/events/fields.ts";
import { TIME_ZONE_RULE, timeZones } from "../../../shared/domain/time/time-zone.ts";

/** An option of an operator command. */
export interface Option<Schema extends z.ZodType = z.ZodType> {
  schema: Schema;
  /** Description of the option in the help text. */
  help: string;
  /** Placeholder for the value in the help text; undefined for a flag, which has no value. */
  placeholder: string | undefined;
  /**
   * Converts text from the command line to the JSON type that the schema expects. Returns unsuitable text unchanged.
   */
  parseText(text: string): unknown;
  /** If true, the command line generates an id if the option is omitted. */
  isGenerated: boolean;
}

/** Maximum nesting of a JSON value. Code that recurses this deep stays far below the stack limit. */
const MAX_NESTING_LEVELS = 100;

function createOption<Schema extends z.ZodType>(
  schema: Schema,
  help: string,
  placeholder: string | undefined,
  parseText: (text: string) => unknown,
): Option<Schema> {
  return { schema, help, placeholder, parseText, isGenerated: false };
}

/** Defines the options of operator commands. */
export const option = {
  /** Defines an option with a text value. */
  text<Schema extends z.ZodType>(schema: Schema, help: string, placeholder = "text") {
    return createOption(schema, help, placeholder, (text) => text);
  },

  /**
   * Defines an option with an optional text. The value is null if the option is omitted or, on the command line, empty.
   */
  nullableText<Schema extends z.ZodType>(schema: Schema, help: string, placeholder = "text") {
    return createOption(schema.nullable().default(null), help, placeholder, toNullIfEmpty);
  },

  /**
   * Defines an option that changes a stored text. An omitted option leaves the text unchanged. An empty value clears
   * the text (null).
   */
  textChange<Schema extends z.ZodType>(schema: Schema, help: string, placeholder = "text") {
    return createOption(schema.optional(), help, placeholder, toNullIfEmpty);
  },

  /** Defines an option with a numeric value. */
  number<Schema extends z.ZodType>(schema: Schema, help: string) {
    return createOption(schema, help, "number", (text) => (/^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text));
  },

  /** Defines an option without a value: true if given, otherwise false. */
  flag(help: string) {
    return createOption(z.boolean().default(false), help, undefined, () => true);
  },

  /** Defines an option with a list of values, separated by commas on the command line. */
  list<Schema extends z.ZodType>(schema: Schema, help: string, placeholder = "list") {
    return createOption(schema, help, placeholder, (text) => text.split(",").map((item) => item.trim()));
  },

  /**
   * Defines an option with a JSON value. The schema of the stored event allows deeper nesting, so that earlier events
   * stay readable.
   */
  json<Schema extends z.ZodType>(schema: Schema, help: string) {
    const nestedSchema = z
      .unknown()
      .optional()
      .refine(isNestedWithinLimit, `must not be nested more than ${MAX_NESTING_LEVELS} levels deep`)
      .pipe(schema);
    return createOption(nestedSchema, help, "json", (text) => {
      try {
        return JSON.parse(text) as unknown;
      } catch {
        return text;
      }
    });
  },

  /** Defines an option with the id of an existing object. */
  id(help: string): Option<typeof uuid> {
    return option.text(uuid, help, "uuid");
  },

  /** Defines an option with the id of the object that the command creates. Only an import requires the id. */
  newId(help: string): Option<typeof uuid> {
    return { ...option.id(help), isGenerated: true };
  },
};

/** Option with the id of the clinic that a command concerns. */
export const clinic = option.id("the clinic");

/** Schema of a time zone. The schema of the stored event allows other names, so that earlier events stay readable. */
export const timeZoneSchema = z.string().refine((name) => timeZones.has(name), TIME_ZONE_RULE);

/**
 * Returns true if the nesting of a value is within the limit. The function works level by level, because recursion
 * could overflow the stack.
 */
function isNestedWithinLimit(value: unknown): boolean {
  let levelValues = [value];
  for (let depth = 0; levelValues.length > 0; depth += 1) {
    if (depth > MAX_NESTING_LEVELS) return false;
    levelValues = levelValues.flatMap((item) => (typeof item === "object" && item !== null ? Object.values(item) : []));
  }
  return true;
}

function toNullIfEmpty(text: string): string | null {
  return text === "" ? null : text;
}

/** Returns a copy of an object without the members that are undefined. */
export function omitUndefined<T extends object>(object: T) {
  const definedMembers = Object.entries(object).filter(([, value]) => value !== undefined);
  return Object.fromEntries(definedMembers) as { [Name in keyof T]?: Exclude<T[Name], undefined> };
}
