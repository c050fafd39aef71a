import { z } from "zod";
import { webhookEndpointRecord } from "../../shared/partner-api/webhook-endpoint-record.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { ENDPOINT_HEALTH_JOIN_SQL, ENDPOINT_HEALTH_SQL, endpointHealthFields } from "./endpoint-health.ts";
import { definePartnerRead } from "./read.ts";

/**
 * Maximum number of endpoints in the list. Endpoints that are not revoked are selected first. The endpoint quota is
 * below this maximum, so only revoked endpoints can be missing from the list.
 */
const MAX_ENDPOINTS_IN_LIST = 500;

const listedEndpoint = z.strictObject({ ...webhookEndpointRecord.shape, ...endpointHealthFields });

export const listWebhookEndpoints = definePartnerRead({
  operationId: "listWebhookEndpoints",
  description:
    "Lists the application's webhook endpoints at the clinic, newest first. The list contains all endpoints that are not revoked, and the newest revoked endpoints.",
  response: z.strictObject({ ok: z.literal(true), endpoints: z.array(listedEndpoint) }),
  refusals: {},
  sql: `SELECT NULL AS refusal, json_build_object('endpoints', coalesce(json_agg(json_build_object(
      'id', e.endpoint_id, 'clinicId', e.clinic_id, 'url', e.url, 'events', e.events, 'status', e.status,
      'disabledReason', e.disabled_reason, 'createdAt', rfc3339(e.created_at),
      'updatedAt', rfc3339(e.updated_at), ${ENDPOINT_HEALTH_SQL}) ORDER BY e.created_at DESC, e.endpoint_id), '[]'))::text AS body
    FROM (
      SELECT * FROM ${READ_MODEL_SCHEMA}.webhook_endpoint
      WHERE clinic_id = $1::uuid AND application_id = $2::uuid AND environment = $3
      ORDER BY status = 'revoked', created_at DESC, endpoint_id
      LIMIT ${MAX_ENDPOINTS_IN_LIST}
    ) e
    ${ENDPOINT_HEALTH_JOIN_SQL}`,
  getSqlParameters: ({ state: { clinicId, applicationId, environment } }) => [clinicId, applicationId, environment],
});
