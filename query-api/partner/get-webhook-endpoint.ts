import { z } from "zod";
import { applicationEndpointDetail, webhookEndpointDetail } from "../../shared/partner-api/records.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import {
  ENDPOINT_FIELDS_SQL,
  ENDPOINT_HEALTH_JOIN_SQL,
  ENDPOINT_HEALTH_SQL,
  endpointHealthFields,
} from "./list-webhook-endpoints.ts";
import { definePartnerRead, getOwnerId, parsePathId, toApplicationRead } from "./read.ts";

const defineResponse = (detail: z.ZodObject) =>
  z.strictObject({ ok: z.literal(true), endpoint: z.strictObject({ ...detail.shape, ...endpointHealthFields }) });

export const getWebhookEndpoint = definePartnerRead({
  operationId: "getWebhookEndpoint",
  description: "Returns an endpoint with all its settings. The list of endpoints contains fewer fields.",
  response: defineResponse(webhookEndpointDetail),
  refusals: { webhook_endpoint_not_found: 404 },
  sql: `SELECT CASE WHEN e.endpoint_id IS NULL THEN 'webhook_endpoint_not_found' END AS refusal,
    json_build_object('endpoint', json_build_object(
      ${ENDPOINT_FIELDS_SQL},
      'operationalEvents', e.operational_events, 'branchIds', e.branch_ids, 'headerNames', e.header_names,
      'rateLimitPerSecond', e.rate_limit_per_second, 'ordering', e.ordering, 'bodyFormat', e.body_format,
      'asymmetricSignature', e.asymmetric_signature, ${ENDPOINT_HEALTH_SQL}))::text AS body
    FROM (VALUES (1)) request
    LEFT JOIN ${READ_MODEL_SCHEMA}.webhook_endpoint e ON e.endpoint_id = $4::uuid
      AND e.owner_id = $1::uuid AND e.application_id = $2::uuid AND e.environment = $3
    ${ENDPOINT_HEALTH_JOIN_SQL}`,
  getSqlParameters({ state, pathParams }) {
    return [getOwnerId(state), state.applicationId, state.environment, parsePathId(pathParams.endpointId)];
  },
});

export const getApplicationWebhookEndpoint = toApplicationRead(
  getWebhookEndpoint,
  defineResponse(applicationEndpointDetail),
);
