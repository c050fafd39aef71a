import { z } from "zod";
import { uuid } from "../../shared/events/fields.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { parseRfc3339 } from "../../shared/time/rfc3339.ts";

/** A place in a list that is ordered by a time, then an id: where the next page goes on. */
export interface Place {
  /** RFC 3339, to the microsecond that Postgres keeps. */
  at: string;
  id: string;
}

const place = z.tuple([z.string().refine((text) => parseRfc3339(text) !== undefined), uuid]);

/** Longer than any cursor of ours. */
const MAXIMUM_LENGTH = 200;

/**
 * Reads a cursor.
 *
 * @param given undefined for the first page
 * @throws {ApiError} 400 `invalid_cursor` where it is not one that an answer carried
 */
export function readCursor(given: string | string[] | undefined): Place | undefined {
  if (given === undefined) return undefined;
  const read = typeof given === "string" && given.length <= MAXIMUM_LENGTH ? decode(given) : undefined;
  if (!read) throw new ApiError(400, "invalid_cursor");
  return read;
}

function decode(text: string): Place | undefined {
  const parts = Buffer.from(text, "base64url").toString("utf8").split(" ");
  const read = place.safeParse(parts);
  if (!read.success) return undefined;
  const [at, id] = read.data;
  // Year 0000 is RFC 3339 and not a year of Postgres; a cursor with it is not ours.
  return at.startsWith("0000") ? undefined : { at, id };
}

/** SQL for the cursor of a row: base64url of its place. Postgres breaks base64 into lines and pads it. */
export function cursorSql(at: string, id: string): string {
  const text = `to_char(${at} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || ' ' || ${id}::text`;
  return `translate(encode(convert_to(${text}, 'UTF8'), 'base64'), E'+/=\\n', '-_')`;
}
