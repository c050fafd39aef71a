import { ApiError } from "../../shared/http/api-error.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";

/** Place of an event in the log. */
export interface EventCursor {
  position: string;
  /** The log still has this event at this position if it was not replaced by a copy. */
  eventId: string;
  /** Object whose last change the event is, if several objects share the event. */
  subjectId?: string;
  /** The cursor is valid until this value changes, because rows may then appear before its position. */
  epoch: string;
}

const UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
const PATTERN = new RegExp(`^(0|[1-9]\\d{0,18}) (${UUID})(?: (${UUID}))? ([0-9a-f,-]{0,100})$`);

/** Largest `bigint` of Postgres. */
const MAX_POSITION = 2n ** 63n - 1n;

/**
 * Returns SQL for the epoch of a clinic's cursors ($1). The replay of a quarantined stream starts a new epoch.
 *
 * @param positions SQL for further values that start a new epoch when they change
 */
export function buildEpochSql(...positions: string[]): string {
  const replaySql = `(SELECT replay_id FROM ${READ_MODEL_SCHEMA}.clinic_replay WHERE clinic_id = $1::uuid)`;
  return `concat_ws(',', ${[...positions, replaySql].join(", ")})`;
}

export function formatEventCursor({ position, eventId, subjectId, epoch }: EventCursor): string {
  const parts = [position, eventId, ...(subjectId === undefined ? [] : [subjectId]), epoch];
  return Buffer.from(parts.join(" ")).toString("base64url");
}

/**
 * @param hasSubject true if the cursor must have a subject; otherwise it must have none
 * @throws {ApiError} 400 `invalid_cursor` if no response could have contained this cursor
 */
export function parseEventCursor(text: string, hasSubject = false): EventCursor {
  const bytes = Buffer.from(text, "base64url");
  const [, position = "", eventId = "", subjectId, epoch = ""] = PATTERN.exec(bytes.toString("latin1")) ?? [];
  const isValid = eventId !== "" && (subjectId !== undefined) === hasSubject && BigInt(position) <= MAX_POSITION;
  if (!isValid || bytes.toString("base64url") !== text) throw new ApiError(400, "invalid_cursor");
  return { position, eventId, epoch, ...(subjectId !== undefined && { subjectId }) };
}
