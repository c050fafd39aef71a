import { z } from "zod";
import { buildIsAnimalVisibleSql } from "../../shared/partner-api/animal-access.ts";
import { publicAppointment } from "../../shared/partner-api/records.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { timeWindow } from "../http/fields.ts";
import {
  animalIdParameter,
  createLimitParameter,
  MAX_WINDOW_DAYS,
  toTimeWindow,
  windowParameters,
} from "../http/parameters.ts";
import { buildPageSql, partnerPage } from "./cursor.ts";
import { changeProgress, listChanges, updatedSinceParameter } from "./list-changes.ts";
import { buildIsBranchVisibleSql, definePartnerRead, parsePathId } from "./read.ts";

/**
 * Selects one row more than the page contains, to detect a next page. $4 and $5: window. $6: limit. $7 and $8: cursor.
 * $9: animal access. $10: application. $11: animal, null for all.
 */
const pageAndNextRowSql = `SELECT * FROM ${READ_MODEL_SCHEMA}.appointment a
  WHERE a.clinic_id = $1::uuid AND ${buildIsBranchVisibleSql("a.branch_id")}
    AND ${buildIsAnimalVisibleSql({ animalAccess: "$9::text", applicationId: "$10::uuid", animalId: "a.animal_id" })}
    AND ($11::uuid IS NULL OR a.animal_id = $11::uuid)
    AND a.scheduled_at >= $4::timestamptz AND a.scheduled_at < $5::timestamptz
    AND ($7::timestamptz IS NULL OR (a.scheduled_at, a.appointment_id) > ($7::timestamptz, $8::uuid))
  ORDER BY a.scheduled_at, a.appointment_id
  LIMIT $6::integer + 1`;

export const listPartnerAppointments = definePartnerRead({
  operationId: "listPartnerAppointments",
  description: `Lists appointments in a window of at most 31 days, sorted by time, in pages. The list contains only appointments of branches and animals that the installation covers.

With \`updatedSince\`, it instead lists all appointments that changed since then, of any time and status. \`from\`, \`to\` and \`cursor\` are then ignored, the response has \`changes\` instead of \`window\`, and \`page.nextCursor\` is null. An appointment that changes between two requests appears again. So does one whose notes were erased, with the same \`revision\`. A date-time is only an approximate start, because imported appointments can have an earlier \`updatedAt\`.

A cursor becomes invalid when the access or the links of your application change, and when the sandbox is reset. The response is then 422 \`unknown_cursor\`. Start again with a date-time.`,
  parameters: {
    ...windowParameters,
    animalId: animalIdParameter,
    limit: createLimitParameter(250, 100),
    updatedSince: updatedSinceParameter,
  },
  isPaged: true,
  response: z.strictObject({
    ok: z.literal(true),
    window: timeWindow.optional(),
    changes: changeProgress.optional(),
    appointments: z.array(publicAppointment.schema),
    page: partnerPage,
  }),
  refusals: { unknown_cursor: 422 },
  alternative: listChanges,
  sql: `WITH page_and_next_row AS MATERIALIZED (${pageAndNextRowSql}),
    page AS (SELECT * FROM page_and_next_row ORDER BY scheduled_at, appointment_id LIMIT $6::integer)
    SELECT NULL AS refusal, json_build_object(
      'window', json_build_object('from', rfc3339($4::timestamptz), 'to', rfc3339($5::timestamptz),
        'maximumDays', ${MAX_WINDOW_DAYS}),
      'appointments', coalesce((SELECT json_agg(${publicAppointment.sql}
        ORDER BY a.scheduled_at, a.appointment_id) FROM page a), '[]'),
      'page', ${buildPageSql("scheduled_at", "appointment_id", "$6", "scheduled_at DESC, appointment_id DESC")}
    )::text AS body`,
  getSqlParameters({ state, parameters: { from, to, limit, animalId }, cursor }) {
    const { clinicId, applicationId, branchId, now } = state;
    const { branchIds, animalAccess } = state.installation;
    const window = toTimeWindow({ from, to }, now);
    const pageParameters = [window.from, window.to, limit, cursor?.time, cursor?.id];
    return [clinicId, branchIds, branchId, ...pageParameters, animalAccess, applicationId, animalId];
  },
});

export const getPartnerAppointment = definePartnerRead({
  operationId: "getPartnerAppointment",
  description:
    "Returns an appointment. The installation must cover its branch and its animal, and the branch header must allow its branch.",
  response: z.strictObject({ ok: z.literal(true), appointment: publicAppointment.schema }),
  refusals: { appointment_not_found: 404 },
  sql: `SELECT CASE WHEN a.appointment_id IS NULL THEN 'appointment_not_found' END AS refusal,
    json_build_object('appointment', ${publicAppointment.sql})::text AS body
    FROM (VALUES (1)) request
    LEFT JOIN ${READ_MODEL_SCHEMA}.appointment a ON a.appointment_id = $4::uuid
      AND a.clinic_id = $1::uuid AND ${buildIsBranchVisibleSql("a.branch_id")}
      AND ${buildIsAnimalVisibleSql({ animalAccess: "$5::text", applicationId: "$6::uuid", animalId: "a.animal_id" })}`,
  getSqlParameters({ state: { clinicId, applicationId, installation, branchId }, pathParams: { appointmentId } }) {
    const { branchIds, animalAccess } = installation;
    return [clinicId, branchIds, branchId, parsePathId(appointmentId), animalAccess, applicationId];
  },
});
