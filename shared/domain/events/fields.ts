import { z } from "zod";
import { parseRfc3339, toInstant } from "../time/rfc3339.ts";

/** Field schemas that events and HTTP bodies have in common. */

/** Any RFC 9562 text form, kept in lower case. */
export const uuid = z.guid().transform((text) => text.toLowerCase());

/** RFC 3339 with an offset; kept in UTC with milliseconds and `Z`. The years are those that Postgres has too: 0001–9999. */
export const instant = z.string().transform((text, context) => {
  if (CANONICAL.test(text)) return text;
  const milliseconds = parseRfc3339(text);
  const iso = milliseconds === undefined ? undefined : toInstant(milliseconds);
  if (iso === undefined || iso.length !== 24 || iso < "0001") {
    context.addIssue({ code: "custom", message: "must be an RFC 3339 date-time with an offset" });
    return z.NEVER;
  }
  return iso;
});

/** What stored events have: instants in the form that is kept. Of days that not every month has, the parser tells. */
const CANONICAL =
  /^(?!0000)\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z$/;

/** YYYY-MM-DD, of the calendar. */
export const calendarDate = z
  .string()
  .refine(
    (text) =>
      /^\d{4}-\d{2}-\d{2}$/.test(text) && text > "0001" && parseRfc3339(`${text}T00:00:00Z`) !== undefined,
    "must be a date YYYY-MM-DD",
  );

/** HH:MM:SS */
export const timeOfDay = z.string().regex(/^([01]\d|2[0-3]):[0-5]\d:[0-5]\d$/, "must be a time HH:MM:SS");

/** Text that every store keeps as it is: Postgres takes no NUL, and UTF-8 no half of a surrogate pair. */
const isStorable = (text: string) => !/[\0\p{Cs}]/u.test(text);
const storable = z.string().refine(isStorable, "must be text without NUL or half a character");

/** A JSON object of any shape. */
export const freeForm = z
  .record(z.string(), z.unknown())
  .refine((value) => isStorableDeep(value), "must have texts without NUL or half a character");

function isStorableDeep(value: unknown): boolean {
  if (typeof value === "string") return isStorable(value);
  if (typeof value !== "object" || value === null) return true;
  return Object.entries(value).every(([key, member]) => isStorable(key) && isStorableDeep(member));
}

/** A text that a person wrote: not blank, bounded. */
export const label = storable.pipe(z.string().trim().min(1).max(200));

/** A word or code, not empty, of up to so many characters. */
export const word = (most: number) => storable.pipe(z.string().min(1).max(most));

/** Free text of up to 2000 characters, as JSON Schema counts them: code points. */
export const notes = storable.refine((text) => [...text].length <= 2000, "must have at most 2000 characters");

export const environment = z.enum(["sandbox", "production"]);
export type Environment = z.infer<typeof environment>;
