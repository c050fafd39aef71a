import { appointmentStreams } from "../../shared/domain/events/appointment.ts";
import { clinicStreams } from "../../shared/domain/events/clinic.ts";
import { animalConsentStreams } from "../../shared/domain/events/consent.ts";
import { installationStreams, webhookEndpointStreams } from "../../shared/domain/events/partner.ts";
import { customerStreams } from "../../shared/domain/events/people.ts";
import { sandboxStreams } from "../../shared/domain/events/sandbox.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";

/** Place of an event in the log. */
export interface EventCursor {
  position: string;
  /** The log still has this event at this position if it was not replaced by a copy. */
  eventId: string;
  /** Object whose last change the event is, if several objects share the event. */
  subjectId?: string;
  /** As in {@link Epoch}. */
  epoch: string;
}

const UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
const PATTERN = new RegExp(`^(0|[1-9]\\d{0,18}) (${UUID})(?: (${UUID}))? ([0-9a-f,-]{0,120})$`);

/** Largest `bigint` of Postgres. */
const MAX_POSITION = 2n ** 63n - 1n;

/** Categories of the streams on which the rows of the lists depend. A quarantine of another stream hides no row. */
const CATEGORY_NAMES = [
  appointmentStreams,
  installationStreams,
  animalConsentStreams,
  webhookEndpointStreams,
  sandboxStreams,
  customerStreams,
  clinicStreams,
].map(({ name }) => name);

/** A cursor is valid until its epoch ends, because rows may then appear before its position. */
export interface Epoch {
  /** SQL for the epoch of new cursors. */
  current: string;
  /** @param epoch SQL for the epoch of a cursor */
  buildIsValidSql(epoch: string): string;
}

/**
 * The epoch of a cursor names the quarantined streams whose events it may have passed, and ends when a quarantine ends or
 * a release without this quarantine serves the request.
 *
 * @param clinics SQL for the ids of the caller's clinics
 * @param positions SQL for values that end an epoch when they change
 */
export function createEpoch(clinics: string, ...positions: string[]): Epoch {
  const build = (...parts: string[]) => `concat_ws(',', ${["''", ...positions, ...parts].join(", ")})`;
  const current = build(`(SELECT md5(string_agg(q.stream || '@' || q.revision, ',' ORDER BY q.stream))
    FROM ${READ_MODEL_SCHEMA}.quarantined_stream q
   WHERE split_part(q.stream, '-', 1) = ANY ('{${CATEGORY_NAMES}}') AND (q.clinic_id IN (${clinics}) OR q.clinic_id IS NULL))`);
  return { current, buildIsValidSql: (epoch) => `${epoch} IN (${current}, ${build()})` };
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
