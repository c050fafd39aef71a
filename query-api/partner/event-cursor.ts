import { ApiError } from "../../shared/http/api-error.ts";

/** Place of an event in a list. */
export interface EventCursor {
  position: string;
  /** Id of the event at the position. It shows whether the log was replaced by a copy. */
  eventId: string;
  /** Owner of the feed, or the appointment whose last change the event is. */
  subjectId: string;
  /** Further state of the list. */
  memory: string;
}

const UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
const PATTERN = new RegExp(`^(0|[1-9]\\d{0,18}) (${UUID}) (${UUID}) ([0-9a-z,:*-]{0,2500})$`);

/** Largest `bigint` of Postgres. */
export const MAX_POSITION = 2n ** 63n - 1n;

export function formatEventCursor({ position, eventId, subjectId, memory }: EventCursor): string {
  return Buffer.from([position, eventId, subjectId, memory].join(" ")).toString("base64url");
}

/** @throws {ApiError} 400 `invalid_cursor` if no response could have contained this cursor */
export function parseEventCursor(text: string): EventCursor {
  const bytes = Buffer.from(text, "base64url");
  const [, position = "", eventId = "", subjectId = "", memory = ""] = PATTERN.exec(bytes.toString("latin1")) ?? [];
  if (eventId === "" || BigInt(position) > MAX_POSITION || bytes.toString("base64url") !== text)
    throw new ApiError(400, "invalid_cursor");
  return { position, eventId, subjectId, memory };
}
