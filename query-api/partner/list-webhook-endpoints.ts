import { z } from "zod";
import { applicationEndpointRecord, webhookEndpointRecord } from "../../shared/partner-api/records.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { instant } from "../http/fields.ts";
import { definePartnerRead, getOwnerId, toApplicationRead } from "./read.ts";

/** Fields of an endpoint that describe its recent attempts. Only reads return them. */
export const endpointHealthFields = {
  failingSince: instant
    .nullable()
    .describe(
      "Time of the first failed attempt since the last success. Null if the latest attempt succeeded, if there was no attempt, or if the endpoint is not active.",
    ),
  failedAttempts: z.int().min(0).describe("Number of failed attempts since `failingSince`; 0 if it is null."),
};

/** SQL arguments of `json_build_object` for the fields of an endpoint `e` that both reads return. */
export const ENDPOINT_FIELDS_SQL = `'id', e.endpoint_id, 'clinicId', e.clinic_id, 'url', e.url, 'events', e.events,
      'status', e.status, 'disabledReason', e.disabled_reason, 'createdAt', rfc3339(e.created_at),
      'updatedAt', rfc3339(e.updated_at)`;

/** SQL arguments of `json_build_object` for the health of an endpoint, from the join of {@link ENDPOINT_HEALTH_JOIN_SQL}. */
export const ENDPOINT_HEALTH_SQL = `'failingSince', rfc3339(f.since), 'failedAttempts', coalesce(f.failures, 0)`;

export const ENDPOINT_HEALTH_JOIN_SQL =
  "LEFT JOIN webhooks.failing_endpoint f ON f.endpoint_id = e.endpoint_id AND e.status = 'active'";

/**
 * Maximum number of endpoints in the list. Endpoints that are not revoked are selected first. The endpoint quota is
 * below this maximum, so only revoked endpoints can be missing from the list.
 */
const MAX_ENDPOINTS_IN_LIST = 500;

const defineResponse = (record: z.ZodObject) =>
  z.strictObject({
    ok: z.literal(true),
    endpoints: z.array(z.strictObject({ ...record.shape, ...endpointHealthFields })),
  });

export const listWebhookEndpoints = definePartnerRead({
  operationId: "listWebhookEndpoints",
  description:
    "Lists the webhook endpoints, newest first. The list contains all endpoints that are not revoked, and the newest revoked endpoints.",
  response: defineResponse(webhookEndpointRecord),
  refusals: {},
  sql: `SELECT NULL AS refusal, json_build_object('endpoints', coalesce(json_agg(json_build_object(
      ${ENDPOINT_FIELDS_SQL}, ${ENDPOINT_HEALTH_SQL}) ORDER BY e.created_at DESC, e.endpoint_id), '[]'))::text AS body
    FROM (
      SELECT * FROM ${READ_MODEL_SCHEMA}.webhook_endpoint
      WHERE owner_id = $1::uuid AND application_id = $2::uuid AND environment = $3
      ORDER BY status = 'revoked', created_at DESC, endpoint_id
      LIMIT ${MAX_ENDPOINTS_IN_LIST}
    ) e
    ${ENDPOINT_HEALTH_JOIN_SQL}`,
  getSqlParameters: ({ state }) => [getOwnerId(state), state.applicationId, state.environment],
});

export const listApplicationWebhookEndpoints = toApplicationRead(
  listWebhookEndpoints,
  defineResponse(applicationEndpointRecord),
);
