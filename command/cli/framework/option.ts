import { z } from "zod";
import { uuid } from "../../../shared/domain/events/fields.ts";
import { TIME_ZONE_RULE, timeZones } from "../../../shared/domain/time/time-zone.ts";

/** An option of a command. */
export interface Option<Schema extends z.ZodType = z.ZodType> {
  schema: Schema;
  help: string;
  /** Placeholder for the value in the help; undefined for a flag. */
  placeholder: string | undefined;
  /** Converts text of the command line to the JSON type that the schema expects; returns other text unchanged. */
  fromText(text: string): unknown;
  /** Whether an id is generated if none is given. */
  made: boolean;
}

function option<Schema extends z.ZodType>(
  schema: Schema,
  help: string,
  placeholder: string | undefined,
  fromText: (text: string) => unknown,
): Option<Schema> {
  return { schema, help, placeholder, fromText, made: false };
}

export function text<Schema extends z.ZodType>(schema: Schema, help: string, placeholder = "text") {
  return option(schema, help, placeholder, (given) => given);
}

/** An optional text. It is null if omitted or, on the command line, empty. */
export function textOrNull<Schema extends z.ZodType>(schema: Schema, help: string, placeholder = "text") {
  return option(schema.nullable().default(null), help, placeholder, emptyIsNull);
}

/** A text to change. It is unchanged if omitted, and null if empty on the command line. */
export function textToChange<Schema extends z.ZodType>(schema: Schema, help: string, placeholder = "text") {
  return option(schema.optional(), help, placeholder, emptyIsNull);
}

export function number<Schema extends z.ZodType>(schema: Schema, help: string) {
  return option(schema, help, "number", (given) => (/^-?\d+(\.\d+)?$/.test(given) ? Number(given) : given));
}

export function flag(help: string) {
  return option(z.boolean().default(false), help, undefined, () => true);
}

/** A list of values, separated by commas on the command line. */
export function list<Schema extends z.ZodType>(schema: Schema, help: string, placeholder = "list") {
  return option(schema, help, placeholder, (given) => given.split(",").map((item) => item.trim()));
}

/** Maximum nesting of a JSON value: more than any use needs, and far below the stack limit. */
const MAX_NESTING = 100;

/** A JSON value. The schema of the stored event allows deeper nesting, so that earlier events stay readable. */
export function json<Schema extends z.ZodType>(schema: Schema, help: string) {
  const bounded = z
    .unknown()
    .optional()
    .refine(isNestedWithin, `must not nest more than ${MAX_NESTING} levels deep`)
    .pipe(schema);
  return option(bounded, help, "json", (given) => {
    try {
      return JSON.parse(given) as unknown;
    } catch {
      return given;
    }
  });
}

/** A time zone. The schema of the stored event allows other names, so that earlier events stay readable. */
export const timeZone = z.string().refine((name) => timeZones.has(name), TIME_ZONE_RULE);

/** The id of an existing object. */
export function id(help: string): Option<typeof uuid> {
  return text(uuid, help, "uuid");
}

/** The id of the object that the command creates. If omitted, it is generated, except in an import. */
export function newId(help: string): Option<typeof uuid> {
  return { ...id(help), made: true };
}

/**
 * Returns whether a value nests within the limit. It works level by level, because recursion could overflow the
 * stack.
 */
function isNestedWithin(value: unknown): boolean {
  let level = [value];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > MAX_NESTING) return false;
    level = level.flatMap((item) => (typeof item === "object" && item !== null ? Object.values(item) : []));
  }
  return true;
}

function emptyIsNull(given: string): string | null {
  return given === "" ? null : given;
}

/** Returns a copy without the members that are undefined. */
export function omitUndefined<Given extends object>(
  given: Given,
): { [Name in keyof Given]?: Exclude<Given[Name], undefined> } {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as {
    [Name in keyof Given]?: Exclude<Given[Name], undefined>;
  };
}
