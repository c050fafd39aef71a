import { z } from "zod";
import { parseRfc3339 } from "../../shared/domain/time/rfc3339.ts";
import { ApiError } from "../../shared/http/api-error.ts";

export const partnerPage = z.strictObject({
  limit: z.int().min(1).describe("Maximum number of records in this page."),
  returned: z.int().min(0).describe("Number of records in this page."),
  nextCursor: z
    .string()
    .nullable()
    .describe("Value for the parameter `cursor` to get the next page. Null on the last page."),
});

/** Position in a list that is sorted by time and id. The next page starts after this position. */
export interface CursorPosition {
  /** RFC 3339 with microseconds, the precision of Postgres. */
  time: string;
  id: string;
}

const UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";

/** Matches the decoded cursor of a page. `buildCursorSql` writes cursors in this form. */
const POSITION_PATTERN = new RegExp(`^(\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{6}Z) (${UUID})$`);

/**
 * Decodes a cursor from base64url. Refuses any other encoding of the same text.
 *
 * @returns the groups of the pattern; undefined if no response could have contained this cursor
 */
function decodeCursor(text: string, pattern: RegExp): string[] | undefined {
  const bytes = Buffer.from(text, "base64url");
  return bytes.toString("base64url") === text ? pattern.exec(bytes.toString("latin1"))?.slice(1) : undefined;
}

/**
 * Parses the query parameter `cursor`.
 *
 * @param cursor undefined for the first page; an array if the parameter is repeated
 * @throws {ApiError} 400 `invalid_cursor` if no response could have contained this cursor
 */
export function readCursor(cursor: string | string[] | undefined): CursorPosition | undefined {
  if (cursor === undefined) return undefined;
  const [time = "", id = ""] = decodeCursor(String(cursor), POSITION_PATTERN) ?? [];
  // RFC 3339 allows the year 0000, but Postgres does not.
  if (parseRfc3339(time) === undefined || time.startsWith("0000")) throw new ApiError(400, "invalid_cursor");
  return { time, id };
}

/**
 * Returns SQL for the field `page`. The statement must have two CTEs: `page`, with the rows of the page, and
 * `page_and_next_row`, with one more row if there is a next page.
 *
 * @param limitParameter SQL parameter with the limit
 * @param lastRowOrder ORDER BY expression whose first row is the last row of the page
 */
export function buildPageSql(
  timeColumn: string,
  idColumn: string,
  limitParameter: string,
  lastRowOrder: string,
): string {
  return `json_build_object('limit', ${limitParameter}::integer, 'returned', (SELECT count(*) FROM page),
        'nextCursor', CASE WHEN (SELECT count(*) FROM page_and_next_row) > ${limitParameter}::integer THEN (
          SELECT ${buildCursorSql(timeColumn, idColumn)} FROM page ORDER BY ${lastRowOrder} LIMIT 1) END)`;
}

/**
 * Returns SQL for the cursor of a row. The SQL removes the line breaks and the padding that Postgres adds to base64.
 */
function buildCursorSql(timeColumn: string, idColumn: string): string {
  const sql = `to_char(${timeColumn} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || ' ' || ${idColumn}::text`;
  return `translate(encode(convert_to(${sql}, 'UTF8'), 'base64'), E'+/=\\n', '-_')`;
}

/** Position of an event in a feed, or in the list of changed appointments. */
export interface EventCursor {
  position: string;
  /** Id of the event at this position. A mismatch shows that the log was replaced, so the cursor is refused. */
  eventId: string;
  /** Id of the feed's owner (clinic or application), or of the changed appointment. */
  subjectId: string;
  /** Gaps of the feed, or epoch of the list of changes, as text. */
  memory: string;
}

const EVENT_PATTERN = new RegExp(`^(0|[1-9]\\d{0,18}) (${UUID}) (${UUID}) ([0-9a-z,:*-]{0,2500})$`);

/** Largest `bigint` of Postgres. */
export const MAX_POSITION = 2n ** 63n - 1n;

export function formatEventCursor({ position, eventId, subjectId, memory }: EventCursor): string {
  return Buffer.from([position, eventId, subjectId, memory].join(" ")).toString("base64url");
}

/**
 * Parses a cursor of the feed or of the list of changes.
 *
 * @throws {ApiError} 400 `invalid_cursor` if no response could have contained this cursor
 */
export function parseEventCursor(text: string): EventCursor {
  const [position = "", eventId = "", subjectId = "", memory = ""] = decodeCursor(text, EVENT_PATTERN) ?? [];
  if (eventId === "" || BigInt(position) > MAX_POSITION) throw new ApiError(400, "invalid_cursor");
  return { position, eventId, subjectId, memory };
}
