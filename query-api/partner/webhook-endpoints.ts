import { z } from "zod";
import type { PublicRecord } from "../../shared/partner-api/define-record.ts";
import { webhookEndpoint, webhookEndpointDetail, webhookReplay } from "../../shared/partner-api/records.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { instant } from "../http/fields.ts";
import { definePartnerRead, ENDPOINT_JOIN_SQL, getEndpointKey, getOwnerId, parsePathId } from "./read.ts";

/**
 * Adds the fields that only reads return: the endpoint's health, and the expiry of its former secret. The SQL of a read
 * must contain {@link ENDPOINT_HEALTH_JOIN_SQL}.
 */
const extendForReads = <Shape extends z.ZodRawShape>(endpoint: PublicRecord<Shape>) =>
  endpoint.extend(
    {
      failingSince: instant
        .nullable()
        .describe(
          "Time of the first failed attempt since the last success. Null if the latest attempt succeeded, if there was no attempt, or if the endpoint is not active.",
        ),
      failedAttempts: z.int().min(0).describe("Number of failed attempts since `failingSince`; 0 if it is null."),
      formerSecretExpiresAt: instant
        .nullable()
        .describe(
          "Time from which deliveries are signed only with the current secret. Until then, they are also signed with the former secret. Null if no former secret is valid.",
        ),
    },
    {
      failingSince: "f.since",
      failedAttempts: "coalesce(f.failures, 0)",
      formerSecretExpiresAt: "CASE WHEN e.former_secret_expires_at > now() THEN e.former_secret_expires_at END",
    },
  );

const ENDPOINT_HEALTH_JOIN_SQL =
  "LEFT JOIN webhooks.failing_endpoint f ON f.endpoint_id = e.endpoint_id AND e.status = 'active'";

/**
 * Maximum number of endpoints in the list. Endpoints that are not revoked are selected first. The endpoint quota is
 * below this maximum, so only revoked endpoints can be missing from the list.
 */
const MAX_ENDPOINTS_IN_LIST = 500;

const listedEndpoint = extendForReads(webhookEndpoint);

export const listWebhookEndpoints = definePartnerRead({
  operationId: "listWebhookEndpoints",
  description:
    "Lists the webhook endpoints, newest first. The list contains all endpoints that are not revoked, and the newest revoked endpoints.",
  response: z.strictObject({ ok: z.literal(true), endpoints: z.array(listedEndpoint.schema) }),
  refusals: {},
  sql: `SELECT NULL AS refusal, json_build_object('endpoints', coalesce(json_agg(${listedEndpoint.sql}
      ORDER BY e.created_at DESC, e.endpoint_id), '[]'))::text AS body
    FROM (
      SELECT * FROM ${READ_MODEL_SCHEMA}.webhook_endpoint
      WHERE owner_id = $1::uuid AND application_id = $2::uuid AND environment = $3
      ORDER BY status = 'revoked', created_at DESC, endpoint_id
      LIMIT ${MAX_ENDPOINTS_IN_LIST}
    ) e
    ${ENDPOINT_HEALTH_JOIN_SQL}`,
  getSqlParameters: ({ state }) => [getOwnerId(state), state.applicationId, state.environment],
});

const endpoint = extendForReads(webhookEndpointDetail);

export const getWebhookEndpoint = definePartnerRead({
  operationId: "getWebhookEndpoint",
  description: "Returns an endpoint with all its settings. The list of endpoints contains fewer fields.",
  response: z.strictObject({ ok: z.literal(true), endpoint: endpoint.schema }),
  refusals: { webhook_endpoint_not_found: 404 },
  sql: `SELECT CASE WHEN e.endpoint_id IS NULL THEN 'webhook_endpoint_not_found' END AS refusal,
    json_build_object('endpoint', ${endpoint.sql})::text AS body
    FROM (VALUES (1)) request
    ${ENDPOINT_JOIN_SQL}
    ${ENDPOINT_HEALTH_JOIN_SQL}`,
  getSqlParameters: getEndpointKey,
});

export const getWebhookReplay = definePartnerRead({
  operationId: "getWebhookReplay",
  description:
    "Returns a replay of several deliveries with its progress. The counts increase while the replay is running.",
  response: z.strictObject({ ok: z.literal(true), replay: webhookReplay.schema }),
  refusals: { webhook_endpoint_not_found: 404, webhook_replay_not_found: 404 },
  sql: `SELECT CASE WHEN e.endpoint_id IS NULL THEN 'webhook_endpoint_not_found'
                    WHEN r.replay_id IS NULL THEN 'webhook_replay_not_found' END AS refusal,
    json_build_object('replay', ${webhookReplay.sql})::text AS body
    FROM (VALUES (1)) request
    ${ENDPOINT_JOIN_SQL}
    LEFT JOIN ${READ_MODEL_SCHEMA}.webhook_replay r ON r.replay_id = $5::uuid AND r.endpoint_id = e.endpoint_id
      AND coalesce(r.clinic_id, r.application_id) = $1::uuid AND r.application_id = $2::uuid
    LEFT JOIN webhooks.replay w ON w.replay_id = r.replay_id`,
  getSqlParameters: (request) => [...getEndpointKey(request), parsePathId(request.pathParams.replayId)],
});
