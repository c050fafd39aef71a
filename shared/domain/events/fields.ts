import { z } from "zod";
import { parseRfc3339, toInstantInRange } from "../time/rfc3339.ts";

/** Records the JSON Schema format of a text schema. A copy of the schema keeps the format. */
export const formats = z.registry<{ format: "uuid" | "date-time" | "date" | "time" }>();

/** Schema of a UUID in any text form of RFC 9562. Converts the UUID to lower case. */
export const uuid = z
  .guid()
  .transform((text) => text.toLowerCase())
  .register(formats, { format: "uuid" });

/**
 * Schema of an RFC 3339 date-time with an offset. Converts the date-time to UTC with milliseconds and `Z`. The
 * converted year must be between 0001 and 9999.
 */
export const instant = z
  .string()
  .transform((text, context) => {
    if (CANONICAL_INSTANT_PATTERN.test(text)) return text;
    const milliseconds = parseRfc3339(text);
    const isoText = milliseconds === undefined ? undefined : toInstantInRange(milliseconds);
    if (isoText === undefined) {
      context.addIssue({
        code: "custom",
        message: "must be an RFC 3339 date-time with an offset, such as 2026-05-04T09:00:00+02:00",
      });
      return z.NEVER;
    }
    return isoText;
  })
  .register(formats, { format: "date-time" });

/**
 * Matches instants that are already in the converted form, such as those in stored events. These instants need no
 * parsing. February 29 is excluded, because only the parser knows the leap years.
 */
const CANONICAL_INSTANT_PATTERN =
  /^(?!0000)\d{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z$/;

/** Schema of a calendar date, YYYY-MM-DD. */
export const calendarDate = z
  .string()
  .refine(
    (text) => /^\d{4}-\d{2}-\d{2}$/.test(text) && text > "0001" && parseRfc3339(`${text}T00:00:00Z`) !== undefined,
    "must be a date YYYY-MM-DD",
  )
  .register(formats, { format: "date" });

/** Schema of a time of day, HH:MM:SS. */
export const timeOfDay = z
  .string()
  .regex(/^([01]\d|2[0-3]):[0-5]\d:[0-5]\d$/, "must be a time HH:MM:SS")
  .register(formats, { format: "time" });

/** Schema of the end of a period within one day, HH:MM:SS. 24:00:00 is the end of the day. */
export const endTimeOfDay = z
  .string()
  .regex(/^(([01]\d|2[0-3]):[0-5]\d:[0-5]\d|24:00:00)$/, "must be a time HH:MM:SS, at most 24:00:00")
  .register(formats, { format: "time" });

/**
 * Returns true for text that both the event log and Postgres can store. Postgres refuses NUL, and UTF-8 cannot encode
 * lone surrogates.
 */
const isStorable = (text: string) => !/[\0\p{Cs}]/u.test(text);

/** Creates the schema of an integer in a range. Every error message names both limits, unless the value is missing. */
export function integer(minimum: number, maximum: number) {
  const rule = `must be an integer from ${minimum} to ${maximum}`;
  return z
    .int({ error: ({ input }) => (input === undefined ? undefined : rule), abort: true })
    .min(minimum, rule)
    .max(maximum, rule);
}

export const storableText = z.string().refine(isStorable, "must not contain NUL or lone surrogates");

/** Maximum nesting of a JSON object. Code and databases that recurse this deep stay far below their stack limits. */
const MAX_NESTING_LEVELS = 100;

/** Schema of a JSON object with any members. */
export const freeForm = z
  .record(z.string(), z.unknown())
  .refine(isNestedWithinLimit, {
    message: `must not be nested more than ${MAX_NESTING_LEVELS} levels deep`,
    abort: true,
  })
  .refine(isStorableDeep, "must not contain NUL or lone surrogates");

/** Checks the nesting level by level, because recursion could overflow the stack. */
function isNestedWithinLimit(value: unknown): boolean {
  let levelValues = [value];
  for (let depth = 0; levelValues.length > 0; depth += 1) {
    if (depth > MAX_NESTING_LEVELS) return false;
    levelValues = levelValues.flatMap((item) => (typeof item === "object" && item !== null ? Object.values(item) : []));
  }
  return true;
}

function isStorableDeep(value: unknown): boolean {
  if (typeof value === "string") return isStorable(value);
  if (typeof value !== "object" || value === null) return true;
  return Object.entries(value).every(([key, member]) => isStorable(key) && isStorableDeep(member));
}

/**
 * Schema of a short text that a person wrote, such as a name: 1 to 200 characters. Removes outer white space, and
 * converts the text to Unicode form C, so that searches find it however it was typed. This conversion takes quadratic
 * time, so the length is checked first. A text with 200 characters in form C has at most 800 characters in other forms.
 */
export const label = storableText
  .pipe(z.string().trim().max(800, "must have at most 200 characters"))
  .pipe(z.string().normalize().min(1).max(200));

/** Creates the schema of a non-empty word or code with a maximum length in characters. */
export const boundedText = (maxLength: number) => storableText.pipe(z.string().min(1).max(maxLength));

/** Schema of free text with up to 2000 characters. Characters are code points, as in JSON Schema. */
export const notes = storableText.refine((text) => [...text].length <= 2000, "must have at most 2000 characters");

/**
 * Schema of an e-mail address (RFC 5322) without quotes and comments. A domain with non-ASCII letters must be in
 * Punycode.
 */
export const email = z
  .email({
    pattern:
      /^[\w!#$%&'*+/=?^`{|}~-]+(?:\.[\w!#$%&'*+/=?^`{|}~-]+)*@(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z][A-Za-z0-9-]*[A-Za-z0-9]$/,
  })
  .max(254);

/** Schema of a W3C trace context (`traceparent`) of version 00. */
export const traceparent = z
  .string()
  .regex(/^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/, "must be a W3C traceparent");

export const environment = z.enum(["sandbox", "production"]);
export type Environment = z.infer<typeof environment>;

/** Makes all fields of a shape optional. An optional field can be absent, but not undefined. */
export function makeOptional<Shape extends Record<string, z.ZodType>>(shape: Shape) {
  const fields = Object.entries(shape).map(([name, schema]) => [name, z.exactOptional(schema)]);
  return Object.fromEntries(fields) as { [Name in keyof Shape]: z.ZodExactOptional<Shape[Name]> };
}
