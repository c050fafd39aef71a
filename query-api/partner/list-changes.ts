import { z } from "zod";
import { deriveInstallationId } from "../../shared/domain/events/ids.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { buildIsAnimalVisibleSql, IS_LINK_VALID_SQL } from "../../shared/partner-api/animal-access.ts";
import { publicAppointment } from "../../shared/partner-api/records.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { createFilterParameter, parseTime } from "../http/parameters.ts";
import { formatEventCursor, parseEventCursor } from "./cursor.ts";
import { categoryNames } from "./feed-gaps.ts";
import { buildIsBranchVisibleSql, type ReadAlternative } from "./read.ts";

/** Progress of a caller that follows the changes of appointments. */
export const changeProgress = z.strictObject({
  cursor: z
    .string()
    .nullable()
    .describe("Value of `updatedSince` for the next request. Null if the clinic has no visible appointment yet."),
  hasMore: z.boolean().describe("True if more changes are available."),
});

export const updatedSinceParameter = createFilterParameter(
  "Lists the appointments that changed since then, in the order of their last changes, instead of a window. The value is `changes.cursor` of an earlier response, or a date-time as the first starting point.",
  z.string(),
);

/** SQL condition for a visible appointment `a`. $11: animal access. $12: application. $13: animal, null for all. */
const isVisibleSql = `a.clinic_id = $1::uuid AND ($13::uuid IS NULL OR a.animal_id = $13::uuid) AND ${buildIsBranchVisibleSql("a.branch_id")}
  AND ${buildIsAnimalVisibleSql({ animalAccess: "$11::text", applicationId: "$12::uuid", animalId: "a.animal_id" })}`;

/**
 * SQL expressions that change when appointments become visible or hidden: with the installation's access, the valid
 * links, or a sandbox reset. Earlier cursors are then refused, because they may have passed these appointments. A new
 * link changes the highest position. The end of a link changes the number of links or the highest position.
 */
const accessPositions = [
  `(SELECT access_position FROM ${READ_MODEL_SCHEMA}.installation WHERE installation_id = $4::uuid)`,
  `(SELECT count(*) || '-' || max(l.position) FROM ${READ_MODEL_SCHEMA}.animal_link l
     WHERE l.application_id = $12::uuid AND l.clinic_id = $1::uuid AND $11::text = 'linked' AND ${IS_LINK_VALID_SQL})`,
  `(SELECT reset_position FROM ${READ_MODEL_SCHEMA}.sandbox WHERE clinic_id = $1::uuid)`,
];

const buildEpochSql = (...more: string[]) => `concat_ws(',', ${["''", ...accessPositions, ...more].join(", ")})`;

/**
 * SQL expression for the epoch that new cursors contain. The epoch includes the current access and the quarantined
 * streams. When a quarantine ends, appointments can appear before the cursor's position, so cursors with the former
 * epoch become invalid.
 */
const EPOCH_SQL = buildEpochSql(`(SELECT md5(string_agg(q.stream || '@' || q.revision, ',' ORDER BY q.stream))
    FROM ${READ_MODEL_SCHEMA}.quarantined_stream q
   WHERE split_part(q.stream, '-', 1) = ANY ('{${categoryNames}}') AND (q.clinic_id = $1::uuid OR q.clinic_id IS NULL))`);

/**
 * Selects appointments in the order of their last changes, and one row more than the page contains. $5: time to start
 * at. $6 to $9: position, event, appointment and epoch of the cursor. $10: limit.
 *
 * A time is converted to the position before the first change at or after this time. Because of `+ 0`, Postgres reads
 * only the changes since the time, instead of all earlier changes in the order of their positions.
 */
const pageAndNextRowSql = `SELECT a.* FROM ${READ_MODEL_SCHEMA}.appointment a
  WHERE ${isVisibleSql} AND (a.position, a.appointment_id) > (
    coalesce($6::bigint, (SELECT min(c.position + 0) - 1 FROM ${READ_MODEL_SCHEMA}.appointment c
      WHERE c.clinic_id = $1::uuid AND c.updated_at >= $5::timestamptz)),
    coalesce($8::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
  ORDER BY a.position, a.appointment_id
  LIMIT $10::integer + 1`;

const buildLocationSql = (alias: string) =>
  `json_build_object('position', ${alias}.position::text, 'eventId', ${alias}.event_id, 'subjectId', ${alias}.appointment_id)`;

const sqlBody = z.looseObject({
  last: z.object({ position: z.string(), eventId: z.string(), subjectId: z.string() }).nullable(),
  epoch: z.string(),
  hasMore: z.boolean(),
  appointments: z.array(z.unknown()),
  page: z.unknown(),
});

/** The list of appointments in the order of their last changes. */
export const listChanges: ReadAlternative = {
  appliesTo: ({ updatedSince }) => typeof updatedSince === "string",
  sql: `WITH page_and_next_row AS MATERIALIZED (${pageAndNextRowSql}),
    page AS (SELECT * FROM page_and_next_row ORDER BY position, appointment_id LIMIT $10::integer)
    SELECT CASE WHEN $6::bigint IS NOT NULL AND (
        $9::text NOT IN (${EPOCH_SQL}, ${buildEpochSql()}) OR NOT EXISTS (
          SELECT FROM ${READ_MODEL_SCHEMA}.public_event e
           WHERE e.event_id = $7::uuid AND e.position = $6::bigint AND e.clinic_id = $1::uuid)
      ) THEN 'unknown_cursor' END AS refusal,
    json_build_object(
      'appointments', coalesce((SELECT json_agg(${publicAppointment.sql}
        ORDER BY a.position, a.appointment_id) FROM page a), '[]'),
      'page', json_build_object('limit', $10::integer, 'returned', (SELECT count(*) FROM page), 'nextCursor', NULL),
      'epoch', ${EPOCH_SQL}, 'hasMore', (SELECT count(*) FROM page_and_next_row) > $10::integer,
      'last', coalesce(
        (SELECT ${buildLocationSql("p")} FROM page p ORDER BY p.position DESC, p.appointment_id DESC LIMIT 1),
        CASE WHEN $6::bigint IS NULL THEN (
          SELECT ${buildLocationSql("a")} FROM ${READ_MODEL_SCHEMA}.appointment a WHERE ${isVisibleSql}
           ORDER BY a.position DESC, a.appointment_id DESC LIMIT 1) END)
    )::text AS body`,
  getSqlParameters({ state, parameters }) {
    const { clinicId, applicationId, installation, branchId } = state;
    const { time, cursor } = readUpdatedSince(String(parameters.updatedSince));
    return [
      clinicId,
      installation.branchIds,
      branchId,
      deriveInstallationId(applicationId, clinicId),
      time,
      cursor?.position,
      cursor?.eventId,
      cursor?.subjectId,
      cursor?.memory,
      parameters.limit,
      installation.animalAccess,
      applicationId,
      parameters.animalId,
    ];
  },
  completeBody(bodyText, { parameters }) {
    const { last, epoch, hasMore, ...body } = sqlBody.parse(JSON.parse(bodyText));
    const { cursor: formerCursor } = readUpdatedSince(String(parameters.updatedSince));
    const location = last ? { ...last, memory: epoch } : formerCursor;
    return JSON.stringify({ ...body, changes: { cursor: location ? formatEventCursor(location) : null, hasMore } });
  },
};

function readUpdatedSince(text: string) {
  const time = parseTime(text);
  return time === undefined ? { cursor: parseEventCursor(text) } : { time: toInstant(time) };
}
