import { z } from "zod";
import { uuid as uuidField } from "../../shared/domain/events/fields.ts";
import { deliveredEventType } from "../../shared/domain/events/partner.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { attemptErrors } from "../../shared/webhooks/attempt-error.ts";
import { instant, uuid } from "../http/fields.ts";
import { createLimitParameter } from "../http/parameters.ts";
import { buildCursorSql, partnerPage } from "./cursor.ts";
import { definePartnerRead } from "./read.ts";

const attemptErrorsText = [
  "Error code if the attempt got no complete response, otherwise null. New codes may be added. Current codes:",
  ...Object.entries(attemptErrors).map(([code, meaning]) => `- \`${code}\`: ${meaning}`),
].join("\n");

/**
 * Maximum number of attempts that are listed for one delivery. Replays can add many attempts, so only the latest are
 * listed.
 */
const MAX_ATTEMPTS_IN_LIST = 50;

export const deliveryRecord = z.strictObject({
  id: uuid,
  eventId: uuid,
  type: deliveredEventType,
  status: z.enum(["pending", "delivered", "failed", "skipped", "cancelled"]),
  attempts: z
    .array(
      z.strictObject({
        number: z.int().min(1),
        startedAt: instant,
        durationMs: z
          .int()
          .nullable()
          .describe(
            "Duration of the attempt in milliseconds. Null while the attempt is in progress. If the service stopped during the attempt, the value stays null: the outcome is unknown, and another attempt follows.",
          ),
        statusCode: z.int().nullable().describe("HTTP status of the response. Null if there was no response."),
        error: z.string().nullable().describe(attemptErrorsText),
        answer: z.string().nullable().describe("First part of the response body, at most 1 KiB."),
      }),
    )
    .max(MAX_ATTEMPTS_IN_LIST),
  nextAttemptAt: instant
    .nullable()
    .describe(
      "Time at which the next attempt is due. Null unless the status is `pending`. If this time has passed, the delivery is waiting for a free slot, or for the operator to approve the endpoint's origin again. After 30 days without approval, the delivery becomes `skipped`.",
    ),
  createdAt: instant,
  updatedAt: instant,
});

/**
 * Selects one row more than the page contains, to detect a next page. $1: clinic. $2: application. $4: endpoint. $5:
 * limit. $6 and $7: cursor. $8: branches of the installation.
 */
const pageAndNextRowSql = `SELECT d.delivery_id, d.event_id, d.event_type, d.status, d.next_attempt_at, d.created_at, d.updated_at
  FROM webhooks.delivery d
  WHERE d.endpoint_id = $4::uuid AND d.clinic_id = $1::uuid AND d.application_id = $2::uuid
    AND ($8::uuid[] IS NULL OR d.branch_id IS NULL OR d.branch_id = ANY ($8::uuid[]))
    AND ($6::timestamptz IS NULL OR d.created_at < $6::timestamptz
      OR (d.created_at = $6::timestamptz AND d.delivery_id > $7::uuid))
  ORDER BY d.created_at DESC, d.delivery_id
  LIMIT $5::integer + 1`;

const attemptsSql = `SELECT json_agg(json_build_object('number', t.number, 'startedAt', rfc3339(t.started_at),
    'durationMs', t.duration_ms, 'statusCode', t.status_code, 'error', t.error, 'answer', t.answer)
    ORDER BY t.number)
  FROM (SELECT * FROM webhooks.attempt WHERE delivery_id = d.delivery_id
    ORDER BY number DESC LIMIT ${MAX_ATTEMPTS_IN_LIST}) t`;

/** The start of an attempt updates a delivery, but not its row. */
const lastStartSql =
  "SELECT started_at FROM webhooks.attempt WHERE delivery_id = d.delivery_id ORDER BY number DESC LIMIT 1";

export const listWebhookDeliveries = definePartnerRead({
  operationId: "listWebhookDeliveries",
  description:
    "Lists the deliveries of an endpoint, newest first, in pages. Each delivery contains its latest attempts. The list contains deliveries of test events, and of events at branches that the installation covers.",
  parameters: { limit: createLimitParameter(100, 50) },
  isPaged: true,
  response: z.strictObject({ ok: z.literal(true), deliveries: z.array(deliveryRecord), page: partnerPage }),
  refusals: { webhook_endpoint_not_found: 404 },
  sql: `WITH page_and_next_row AS MATERIALIZED (${pageAndNextRowSql}),
    page AS (SELECT * FROM page_and_next_row ORDER BY created_at DESC, delivery_id LIMIT $5::integer)
    SELECT CASE WHEN NOT EXISTS (SELECT FROM ${READ_MODEL_SCHEMA}.webhook_endpoint e WHERE e.endpoint_id = $4::uuid
        AND e.clinic_id = $1::uuid AND e.application_id = $2::uuid AND e.environment = $3)
      THEN 'webhook_endpoint_not_found' END AS refusal,
    json_build_object(
      'deliveries', coalesce((SELECT json_agg(json_build_object(
        'id', d.delivery_id, 'eventId', d.event_id, 'type', d.event_type, 'status', d.status,
        'attempts', coalesce((${attemptsSql}), '[]'), 'nextAttemptAt', rfc3339(d.next_attempt_at),
        'createdAt', rfc3339(d.created_at), 'updatedAt', rfc3339(GREATEST(d.updated_at, (${lastStartSql}))))
        ORDER BY d.created_at DESC, d.delivery_id) FROM page d), '[]'),
      'page', json_build_object('limit', $5::integer, 'returned', (SELECT count(*) FROM page),
        'nextCursor', CASE WHEN (SELECT count(*) FROM page_and_next_row) > $5::integer THEN (
          SELECT ${buildCursorSql("created_at", "delivery_id")} FROM page
          ORDER BY created_at, delivery_id DESC LIMIT 1) END))::text AS body`,
  getSqlParameters({ state, pathParams: params, parameters: { limit }, cursor }) {
    const { clinicId, applicationId, environment } = state;
    // An id that is not a UUID matches no endpoint.
    const endpointId = uuidField.safeParse(params.endpointId).data ?? null;
    const { branchIds } = state.installation;
    return [clinicId, applicationId, environment, endpointId, limit, cursor?.time, cursor?.id, branchIds];
  },
});
