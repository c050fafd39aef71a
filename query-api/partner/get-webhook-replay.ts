import { z } from "zod";
import { webhookReplayRecord } from "../../shared/partner-api/records.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { definePartnerRead, getOwnerId, parsePathId } from "./read.ts";

/** The progress `w` ends before the read model `r` contains the outcome. Old progress is deleted. */
const STATUS_SQL = `coalesce(r.outcome, w.outcome, CASE WHEN w.replay_id IS NULL THEN 'pending' ELSE 'running' END)`;

export const getWebhookReplay = definePartnerRead({
  operationId: "getWebhookReplay",
  description:
    "Returns a replay of several deliveries with its progress. The counts increase while the replay is running.",
  response: z.strictObject({ ok: z.literal(true), replay: webhookReplayRecord }),
  refusals: { webhook_endpoint_not_found: 404, webhook_replay_not_found: 404 },
  sql: `SELECT CASE WHEN e.endpoint_id IS NULL THEN 'webhook_endpoint_not_found'
                    WHEN r.replay_id IS NULL THEN 'webhook_replay_not_found' END AS refusal,
    json_build_object('replay', json_build_object(
      'id', r.replay_id, 'endpointId', r.endpoint_id, 'since', rfc3339(r.since), 'until', rfc3339(r.until),
      'statuses', r.statuses, 'deliveryIds', r.delivery_ids, 'status', ${STATUS_SQL},
      'replayedCount', greatest(r.replayed_count, w.replayed_count),
      'notReplayedCount', greatest(r.not_replayed_count, w.not_replayed_count),
      'requestedAt', rfc3339(r.requested_at),
      'finishedAt', rfc3339(coalesce(r.finished_at, CASE WHEN w.outcome IS NOT NULL THEN w.updated_at END))))::text AS body
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
