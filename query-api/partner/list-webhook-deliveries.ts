import { z } from "zod";
import { uuid as uuidField } from "../../shared/domain/events/fields.ts";
import { deliveredType } from "../../shared/domain/events/partner.ts";
import { attemptErrors } from "../../shared/webhooks/attempt-error.ts";
import { limitParameter } from "../http/parameters.ts";
import { cursorSql } from "./cursor.ts";
import { partnerPage } from "./page.ts";
import { definePartnerRead } from "./read.ts";

const uuid = z.guid();
const instant = z.iso.datetime({ precision: 3 });

const attemptErrorsText = [
  "Why there is no complete answer; null if there is one. More codes may be added:",
  ...Object.entries(attemptErrors).map(([code, meaning]) => `- \`${code}\`: ${meaning}`),
].join("\n");

/** Each delivery shows its latest attempts; replays can make many. */
const MAX_LISTED_ATTEMPTS = 50;

export const delivery = z.strictObject({
  id: uuid,
  eventId: uuid,
  type: deliveredType,
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
            "Null while the attempt is under way, and for good where the sender was cut off: its outcome is unknown then, and another attempt followed.",
          ),
        statusCode: z.int().nullable().describe("Null where no answer came."),
        error: z.string().nullable().describe(attemptErrorsText),
        answer: z.string().nullable().describe("The beginning of the answer's body."),
      }),
    )
    .max(MAX_LISTED_ATTEMPTS),
  nextAttemptAt: instant
    .nullable()
    .describe(
      "When the next attempt is due. Null unless the status is `pending`. If this time has passed and the delivery is still `pending`, it waits for a free slot, or for the operator to approve the origin again; after 30 days without approval it becomes `skipped`.",
    ),
  createdAt: instant,
  updatedAt: instant,
});

/** $1 clinic, $2 application, $3 environment, $4 endpoint, $5 limit, $6 and $7 the cursor, $8 the installation's branches. */
const found = `SELECT d.delivery_id, d.event_id, d.event_type, d.status, d.next_attempt_at, d.created_at, d.updated_at
  FROM webhooks.delivery d
  WHERE d.endpoint_id = $4::uuid AND d.clinic_id = $1::uuid AND d.application_id = $2::uuid
    AND ($8::uuid[] IS NULL OR d.branch_id IS NULL OR d.branch_id = ANY ($8::uuid[]))
    AND ($6::timestamptz IS NULL OR d.created_at < $6::timestamptz
      OR (d.created_at = $6::timestamptz AND d.delivery_id > $7::uuid))
  ORDER BY d.created_at DESC, d.delivery_id
  LIMIT $5::integer + 1`;

const attempts = `SELECT json_agg(json_build_object('number', t.number, 'startedAt', rfc3339(t.started_at),
    'durationMs', t.duration_ms, 'statusCode', t.status_code, 'error', t.error, 'answer', t.answer)
    ORDER BY t.number)
  FROM (SELECT * FROM webhooks.attempt WHERE delivery_id = d.delivery_id
    ORDER BY number DESC LIMIT ${MAX_LISTED_ATTEMPTS}) t`;

export const listWebhookDeliveries = definePartnerRead({
  operationId: "listWebhookDeliveries",
  description:
    "What was and will be delivered to an endpoint, newest first, page by page, each with its latest attempts: tests, and events of the branches that the installation reaches.",
  parameters: { limit: limitParameter(100, 50) },
  paged: true,
  response: z.strictObject({ ok: z.literal(true), deliveries: z.array(delivery), page: partnerPage }),
  refusals: { webhook_endpoint_not_found: 404 },
  sql: `WITH found AS MATERIALIZED (${found}),
    listed AS (SELECT * FROM found ORDER BY created_at DESC, delivery_id LIMIT $5::integer)
    SELECT CASE WHEN NOT EXISTS (SELECT FROM read_model.webhook_endpoint e WHERE e.endpoint_id = $4::uuid
        AND e.clinic_id = $1::uuid AND e.application_id = $2::uuid AND e.environment = $3)
      THEN 'webhook_endpoint_not_found' END AS refusal,
    json_build_object(
      'deliveries', coalesce((SELECT json_agg(json_build_object(
        'id', d.delivery_id, 'eventId', d.event_id, 'type', d.event_type, 'status', d.status,
        'attempts', coalesce((${attempts}), '[]'), 'nextAttemptAt', rfc3339(d.next_attempt_at),
        'createdAt', rfc3339(d.created_at), 'updatedAt', rfc3339(d.updated_at))
        ORDER BY d.created_at DESC, d.delivery_id) FROM listed d), '[]'),
      'page', json_build_object('limit', $5::integer, 'returned', (SELECT count(*) FROM listed),
        'nextCursor', CASE WHEN (SELECT count(*) FROM found) > $5::integer THEN (
          SELECT ${cursorSql("created_at", "delivery_id")} FROM listed
          ORDER BY created_at, delivery_id DESC LIMIT 1) END))::text AS body`,
  values({
    state: { clinicId, applicationId, environment, installation },
    params,
    parameters: { limit },
    after,
  }) {
    // An endpoint id that is no UUID names no endpoint.
    const endpointId = uuidField.safeParse(params.endpointId).data ?? null;
    return [
      clinicId,
      applicationId,
      environment,
      endpointId,
      limit,
      after?.at,
      after?.id,
      installation.branchIds,
    ];
  },
});
