import { z } from "zod";
import { partnerAppointment } from "../../shared/partner-api/records.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import {
  APPOINTMENT_FIELDS_SQL,
  branchRefusalSql,
  buildIsBranchVisibleSql,
  definePartnerRead,
  parsePathId,
} from "./read.ts";

export const getPartnerAppointment = definePartnerRead({
  operationId: "getPartnerAppointment",
  description: "Returns an appointment. Its branch must be one that the installation and the branch header cover.",
  response: z.strictObject({ ok: z.literal(true), appointment: partnerAppointment }),
  refusals: { branch_denied: 403, appointment_not_found: 404 },
  sql: `SELECT coalesce(${branchRefusalSql}, CASE WHEN a.appointment_id IS NULL THEN 'appointment_not_found' END) AS refusal,
    json_build_object('appointment', json_build_object(${APPOINTMENT_FIELDS_SQL}))::text AS body
    FROM (VALUES (1)) request
    LEFT JOIN ${READ_MODEL_SCHEMA}.appointment a ON a.appointment_id = $4::uuid
      AND a.clinic_id = $1::uuid AND ${buildIsBranchVisibleSql("a.branch_id")}`,
  getSqlParameters({ state: { clinicId, installation, branchId }, pathParams: { appointmentId } }) {
    return [clinicId, installation.branchIds, branchId, parsePathId(appointmentId)];
  },
});
