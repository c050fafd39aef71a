import { appointmentStreams } from "../../shared/domain/events/appointment.ts";
import { clinicStreams } from "../../shared/domain/events/clinic.ts";
import { animalConsentStreams } from "../../shared/domain/events/consent.ts";
import { uuid } from "../../shared/domain/events/fields.ts";
import { deriveInstallationId } from "../../shared/domain/events/ids.ts";
import { installationStreams, webhookEndpointStreams } from "../../shared/domain/events/partner.ts";
import { customerStreams } from "../../shared/domain/events/people.ts";
import { sandboxStreams } from "../../shared/domain/events/sandbox.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { type EventCursor, MAX_POSITION } from "./cursor.ts";

/** Quarantined stream, as {@link GAPS_SQL} selects it. */
export interface QuarantinedStream {
  /** Prefix and hash of the stream's name. They replace the name in cursors, because partners must not see it. */
  stream: string;
  /** Position of the first event that the read models lack. */
  position: string;
  /** Null if unknown. */
  clinicId: string | null;
  /** Id of the installation if the stream belongs to an installation, otherwise null. */
  installationId: string | null;
}

/**
 * Quarantined stream that a feed cursor records, because the cursor may have passed events that the quarantine hid.
 * When the quarantine has ended, the feed returns these events.
 */
export interface Gap extends Omit<QuarantinedStream, "installationId"> {
  /** The reader may have missed events after this position. */
  after: string;
}

/**
 * Maximum number of gaps in a cursor. If there are more, the cursor only records this fact. It becomes invalid when the
 * number of quarantined streams has fallen to this maximum.
 */
const MAX_GAPS = 20;

/** Value of `stream` in the single gap that replaces too many gaps of a cursor. */
const TOO_MANY = "*";

/** Categories of streams whose quarantine can hide events or appointments from the lists. */
export const categoryNames = [
  appointmentStreams,
  installationStreams,
  animalConsentStreams,
  webhookEndpointStreams,
  sandboxStreams,
  customerStreams,
  clinicStreams,
].map(({ name }) => name);

/** Returns SQL that hashes the name of a stream for a cursor. Partners must not see the name. */
const buildKeySql = (stream: string) => `left(md5(${stream}), 16)`;

/**
 * Prefixes of streams in cursors. `o`: the quarantine hides only events about one appointment or endpoint. `a`: the
 * stream affects access, so its quarantine can hide any event of the clinic.
 */
const [OBJECT, ACCESS] = ["o", "a"];

const objectStreams = [
  [appointmentStreams.name, "e.appointment_id"],
  [webhookEndpointStreams.name, "e.endpoint_id"],
] as const;

/**
 * SQL of two CTEs: `quarantined`, with the quarantined streams that concern the reader, and `gap`, with the gaps of the
 * reader's cursor ($9 to $12). The CTE `own` must contain the reader's installations.
 *
 * A quarantined installation may be missing from `own`. Therefore, `quarantined` includes all installations at clinic
 * $2, or at all clinics if $2 is null. It excludes endpoints without a clinic, because feeds do not contain their
 * events.
 */
export const GAPS_SQL = `quarantined AS MATERIALIZED (
    SELECT CASE WHEN q.category IN (${objectStreams.map(([name]) => `'${name}'`)}) THEN '${OBJECT}' ELSE '${ACCESS}' END
        || ${buildKeySql("q.stream")} AS stream, q.position, q.clinic_id,
      CASE q.category WHEN '${installationStreams.name}' THEN substr(q.stream, ${installationStreams.name.length + 2}) END AS installation_id
      FROM (SELECT stream, position, clinic_id, split_part(stream, '-', 1) AS category FROM ${READ_MODEL_SCHEMA}.quarantined_stream) q
     WHERE q.category = ANY ('{${categoryNames}}')
       AND (q.clinic_id IN (SELECT clinic_id FROM own)
         OR (q.category = '${installationStreams.name}' AND ($2::uuid IS NULL OR q.clinic_id = $2::uuid))
         OR (q.clinic_id IS NULL AND q.category <> '${webhookEndpointStreams.name}'))
     LIMIT 1000),
  gap AS MATERIALIZED (
    SELECT g.*, CASE g.stream WHEN '${TOO_MANY}' THEN (SELECT count(*) FROM quarantined) <= ${MAX_GAPS}
      ELSE (g.clinic_id IS NULL OR g.clinic_id IN (SELECT clinic_id FROM own)) AND NOT EXISTS (
        SELECT FROM ${READ_MODEL_SCHEMA}.quarantined_stream q
         WHERE q.position = g.position AND ${buildKeySql("q.stream")} = substr(g.stream, 2)) END AS has_ended
      FROM unnest($9::text[], $10::bigint[], $11::bigint[], $12::uuid[]) AS g (stream, position, after, clinic_id))`;

/**
 * SQL condition that is true if the cursor had too many gaps to list, and some may have ended. The reader cannot
 * continue.
 */
export const HAS_LOST_GAPS_SQL = `EXISTS (SELECT FROM gap WHERE stream = '${TOO_MANY}' AND has_ended)`;

/** SQL expression for the position after which the reader may have missed events. Null if no gap has ended. */
export const FIRST_MISSING_SQL = "(SELECT min(after) FROM gap WHERE has_ended)";

/** SQL condition for an event `e` that the reader may have missed, because its gap has ended. */
export const IS_MISSING_SQL = `EXISTS (SELECT FROM gap g WHERE g.has_ended AND e.position > g.after
  AND coalesce(g.clinic_id, e.clinic_id) = e.clinic_id
  AND (g.stream LIKE '${ACCESS}%' OR g.stream IN (${objectStreams
    .map(([name, column]) => `'${OBJECT}' || ${buildKeySql(`'${name}-' || ${column}`)}`)
    .join(", ")})))`;

/** SQL of the quarantined streams and the ended gaps, for {@link nextGaps}. */
export const GAP_FIELDS_SQL = `'quarantined', (SELECT coalesce(json_agg(json_build_object('stream', stream,
    'position', position::text, 'clinicId', clinic_id, 'installationId', installation_id)), '[]') FROM quarantined),
  'endedStreams', (SELECT coalesce(json_agg(stream), '[]') FROM gap WHERE has_ended)`;

/** Result of a read of a feed, from which {@link nextGaps} determines the gaps of the next cursor. */
interface GapChange {
  quarantined: readonly QuarantinedStream[];
  endedStreams: readonly string[];
  /** Position of the cursor before this read. */
  from: string;
  /** Position of the page's last event if missed events follow in the next page; otherwise undefined. */
  last: string | undefined;
}

/** Returns the gaps of the next cursor. */
export function nextGaps(
  applicationId: string,
  gaps: readonly Gap[],
  { quarantined, endedStreams, from, last }: GapChange,
): Gap[] {
  const hasEnded = ({ stream }: Gap) => endedStreams.includes(stream);
  const unfinished =
    last === undefined ? [] : gaps.filter(hasEnded).map((gap) => ({ ...gap, after: max(gap.after, last) }));
  const open = gaps.filter((gap) => !hasEnded(gap));
  if (open.some(({ stream }) => stream === TOO_MANY)) return open;
  const isKnown = (found: QuarantinedStream) =>
    open.some(({ stream, position }) => stream === found.stream && position === found.position);
  const isOwn = ({ installationId, clinicId }: QuarantinedStream) =>
    installationId === null || clinicId === null || installationId === deriveInstallationId(applicationId, clinicId);
  const added = quarantined.filter((found) => isOwn(found) && !isKnown(found));
  const addedGaps = added.map(({ stream, position, clinicId }) => {
    return { stream, position, clinicId, after: min(String(BigInt(position) - 1n), from) };
  });
  const all = [...unfinished, ...open, ...addedGaps];
  return all.length <= MAX_GAPS ? all : [{ stream: TOO_MANY, position: "0", after: "0", clinicId: null }];
}

const max = (a: string, b: string) => (BigInt(a) > BigInt(b) ? a : b);
const min = (a: string, b: string) => (BigInt(a) < BigInt(b) ? a : b);

const GAP_PATTERN = new RegExp(
  `^(\\${TOO_MANY}|[${OBJECT}${ACCESS}][0-9a-f]{16}):(\\d{1,19}):(-1|\\d{1,19}):([0-9a-f-]{36})?$`,
);

export function formatGaps(gaps: readonly Gap[]): string {
  return gaps.map(({ stream, position, after, clinicId }) => [stream, position, after, clinicId].join(":")).join();
}

/**
 * Parses the gaps in a feed cursor.
 *
 * @throws {ApiError} 400 `invalid_cursor`
 */
export function parseGaps({ memory }: EventCursor): Gap[] {
  return (memory === "" ? [] : memory.split(",")).map((text) => {
    const [, stream = "", position = "", after = "", clinicId = null] = GAP_PATTERN.exec(text) ?? [];
    const isValid = stream !== "" && [position, after].every((value) => BigInt(value) <= MAX_POSITION);
    if (!isValid || (clinicId !== null && !uuid.safeParse(clinicId).success)) throw new ApiError(400, "invalid_cursor");
    return { stream, position, after, clinicId };
  });
}
