import { z } from "zod";
import { webhookReplay } from "../../shared/partner-api/records.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { definePartnerRead, getOwnerId, parsePathId } from "./read.ts";

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
    LEFT JOIN ${READ_MODEL_SCHEMA}.webhook_endpoint e ON e.endpoint_id = $4::uuid
      AND e.owner_id = $1::uuid AND e.application_id = $2::uuid AND e.environment = $3
    LEFT JOIN ${READ_MODEL_SCHEMA}.webhook_replay r ON r.replay_id = $5::uuid AND r.endpoint_id = e.endpoint_id
      AND coalesce(r.clinic_id, r.application_id) = $1::uuid AND r.application_id = $2::uuid
    LEFT JOIN webhooks.replay w ON w.replay_id = r.replay_id`,
  getSqlParameters({ state, pathParams: { endpointId, replayId } }) {
    const { applicationId, environment } = state;
    return [getOwnerId(state), applicationId, environment, parsePathId(endpointId), parsePathId(replayId)];
  },
});
