import { z } from "zod";
import { buildIsAnimalVisibleSql } from "../../shared/partner-api/animal-access.ts";
import { publicAppointment } from "../../shared/partner-api/records.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { buildIsBranchVisibleSql, definePartnerRead, parsePathId } from "./read.ts";

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
