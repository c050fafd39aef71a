import { z } from "zod";
import { uuid } from "../../../shared/domain/events/fields.ts";
import { TIME_ZONE_RULE, timeZones } from "../../../shared/domain/time/time-zone.ts";

/** An option of a command: how its value is checked, and how it is read from the text of a command line. */
export interface Option<Schema extends z.ZodType = z.ZodType> {
  schema: Schema;
  help: string;
  /** What stands for the value in the help; undefined for a flag, which has none. */
  placeholder: string | undefined;
  /** A value of the JSON kind that the schema expects, where the text looks like one; else the text as it is. */
  fromText(text: string): unknown;
  /** Whether an id is made where none is given. */
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

/** A text that may be left out or, on the command line, be empty: then it is null. */
export function textOrNull<Schema extends z.ZodType>(schema: Schema, help: string, placeholder = "text") {
  return option(schema.nullable().default(null), help, placeholder, emptyIsNull);
}

/** A text that stays as it was where it is left out; empty, on the command line, it becomes null. */
export function textToChange<Schema extends z.ZodType>(schema: Schema, help: string, placeholder = "text") {
  return option(schema.optional(), help, placeholder, emptyIsNull);
}

export function number<Schema extends z.ZodType>(schema: Schema, help: string) {
  return option(schema, help, "number", (given) => (/^-?\d+(\.\d+)?$/.test(given) ? Number(given) : given));
}

export function flag(help: string) {
  return option(z.boolean().default(false), help, undefined, () => true);
}

/** Several values, on the command line separated by commas. */
export function list<Schema extends z.ZodType>(schema: Schema, help: string, placeholder = "list") {
  return option(schema, help, placeholder, (given) => given.split(",").map((item) => item.trim()));
}

/** A JSON value may nest this deep: far beyond any use, and far below what ends a recursion. */
const MAX_NESTING = 100;

/** Any JSON value. Its stored form may nest deeper, since events that were accepted once stay readable. */
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

/** A time zone. Its stored form is wider, since events that were accepted once stay readable. */
export const timeZone = z.string().refine((name) => timeZones.has(name), TIME_ZONE_RULE);

/** The id of something that exists. */
export function id(help: string): Option<typeof uuid> {
  return text(uuid, help, "uuid");
}

/** The id of what the command makes: a random one where it is left out, except in an import. */
export function newId(help: string): Option<typeof uuid> {
  return { ...id(help), made: true };
}

/** Goes level by level: a recursion would not come to the end of a deep value. */
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

/** What was given a value, without what was left out (undefined). */
export function omitUndefined<Given extends object>(
  given: Given,
): { [Name in keyof Given]?: Exclude<Given[Name], undefined> } {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as {
    [Name in keyof Given]?: Exclude<Given[Name], undefined>;
  };
}
