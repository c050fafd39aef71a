import { parseRfc3339 } from "../../shared/domain/time/rfc3339.ts";
import { ApiError } from "../../shared/http/api-error.ts";

/** A place in a list that is ordered by a time, then an id: where the next page goes on. */
export interface CursorPosition {
  /** RFC 3339, to the microsecond that Postgres keeps. */
  at: string;
  id: string;
}

/** A place as `cursorSql` writes it, to the letter. */
const CURSOR_POSITION =
  /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) ([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$/;

/** base64url of a place has this length, always. */
const CURSOR_LENGTH = 86;

/**
 * Reads a cursor.
 *
 * @param given undefined for the first page
 * @throws {ApiError} 400 `invalid_cursor` where it is not one that an answer carried
 */
export function readCursor(given: string | string[] | undefined): CursorPosition | undefined {
  if (given === undefined) return undefined;
  const read = typeof given === "string" && given.length === CURSOR_LENGTH ? decode(given) : undefined;
  if (!read) throw new ApiError(400, "invalid_cursor");
  return read;
}

/** Only what `cursorSql` would have written: a decoder that forgives would take many texts for one place. */
function decode(text: string): CursorPosition | undefined {
  const bytes = Buffer.from(text, "base64url");
  if (bytes.toString("base64url") !== text) return undefined;
  const [, at = "", id = ""] = CURSOR_POSITION.exec(bytes.toString("latin1")) ?? [];
  // Year 0000 is RFC 3339 and not a year of Postgres.
  return parseRfc3339(at) === undefined || at.startsWith("0000") ? undefined : { at, id };
}

/** SQL for the cursor of a row: base64url of its place. Postgres breaks base64 into lines and pads it. */
export function cursorSql(at: string, id: string): string {
  const text = `to_char(${at} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || ' ' || ${id}::text`;
  return `translate(encode(convert_to(${text}, 'UTF8'), 'base64'), E'+/=\\n', '-_')`;
}
