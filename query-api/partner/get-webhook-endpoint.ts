import { z } from "zod";
import { webhookEndpointDetail } from "../../shared/partner-api/records.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { addHealth, ENDPOINT_HEALTH_JOIN_SQL } from "./list-webhook-endpoints.ts";
import { definePartnerRead, getOwnerId, parsePathId } from "./read.ts";

const endpoint = addHealth(webhookEndpointDetail);

export const getWebhookEndpoint = definePartnerRead({
  operationId: "getWebhookEndpoint",
  description: "Returns an endpoint with all its settings. The list of endpoints contains fewer fields.",
  response: z.strictObject({ ok: z.literal(true), endpoint: endpoint.schema }),
  refusals: { webhook_endpoint_not_found: 404 },
  sql: `SELECT CASE WHEN e.endpoint_id IS NULL THEN 'webhook_endpoint_not_found' END AS refusal,
    json_build_object('endpoint', ${endpoint.sql})::text AS body
    FROM (VALUES (1)) request
    LEFT JOIN ${READ_MODEL_SCHEMA}.webhook_endpoint e ON e.endpoint_id = $4::uuid
      AND e.owner_id = $1::uuid AND e.application_id = $2::uuid AND e.environment = $3
    ${ENDPOINT_HEALTH_JOIN_SQL}`,
  getSqlParameters({ state, pathParams }) {
    return [getOwnerId(state), state.applicationId, state.environment, parsePathId(pathParams.endpointId)];
  },
});
