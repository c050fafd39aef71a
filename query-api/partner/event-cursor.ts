import { ApiError } from "../../shared/http/api-error.ts";

/** Place of an event in the log. The id shows that the log still has this event at this position. */
export interface EventCursor {
  position: string;
  eventId: string;
}

const PATTERN = /^(0|[1-9]\d{0,18}) ([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$/;

/** Largest `bigint` of Postgres. */
const MAX_POSITION = 2n ** 63n - 1n;

export function formatEventCursor({ position, eventId }: EventCursor): string {
  return Buffer.from(`${position} ${eventId}`).toString("base64url");
}

/** @throws {ApiError} 400 `invalid_cursor` if no response could have contained this cursor */
export function parseEventCursor(text: string): EventCursor {
  const bytes = Buffer.from(text, "base64url");
  const [, position = "", eventId = ""] = PATTERN.exec(bytes.toString("latin1")) ?? [];
  if (eventId === "" || BigInt(position) > MAX_POSITION || bytes.toString("base64url") !== text)
    throw new ApiError(400, "invalid_cursor");
  return { position, eventId };
}
