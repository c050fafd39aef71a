import { z } from "zod";
import { deliveredEventType, webhookBodyFormat } from "../../shared/domain/events/partner.ts";
import { buildIsDeliveryVisibleSql } from "../../shared/partner-api/animal-access.ts";
import { formatWebhookBody, WEBHOOK_CONTENT_TYPES } from "../../shared/partner-api/cloud-event.ts";
import { defineRecord } from "../../shared/partner-api/define-record.ts";
import { PUBLIC_EVENT_JSON_SQL, publicEventRow, renderPublicEvent } from "../../shared/partner-api/webhook-body.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { attemptErrors } from "../../shared/webhooks/attempt-error.ts";
import { createCommonHeaders, createDeliveryIdHeaders } from "../../shared/webhooks/delivery-headers.ts";
import { instant, uuid } from "../http/fields.ts";
import { definePartnerRead, ENDPOINT_JOIN_SQL, findInstallation, getEndpointKey, parsePathId } from "./read.ts";

const attemptErrorsText = [
  "Error code if the attempt got no response, otherwise null. New codes may be added. Current codes:",
  ...Object.entries(attemptErrors).map(([code, meaning]) => `- \`${code}\`: ${meaning}`),
].join("\n");

/** Record of an attempt of a delivery. `t` is the attempt's row in the SQL. */
export const webhookAttempt = defineRecord("t", {
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
});

export const deliveryStatus = z.enum(["pending", "delivered", "failed", "skipped", "cancelled"]);

/** Selects the start of the latest attempt, which counts as an update of delivery `d` but does not change its row. */
const LAST_START_SQL =
  "SELECT started_at FROM webhooks.attempt WHERE delivery_id = d.delivery_id ORDER BY number DESC LIMIT 1";

/** Record of a delivery without its attempts. `d` is the delivery's row in the SQL. */
export const webhookDelivery = defineRecord(
  "d",
  {
    id: uuid,
    eventId: uuid,
    type: deliveredEventType,
    appointmentId: uuid
      .nullable()
      .describe("Appointment of the event. Null for test events and events about endpoints."),
    status: deliveryStatus,
    nextAttemptAt: instant
      .nullable()
      .describe(
        "Time at which the next attempt is due. Null unless the status is `pending`. If this time has passed, the delivery is waiting for a free slot, for an earlier delivery of the same appointment, or for the operator to approve the endpoint's origin again. After 30 days without approval, the delivery becomes `skipped`.",
      ),
    createdAt: instant,
    updatedAt: instant,
  },
  { id: "delivery_id", type: "event_type", updatedAt: `GREATEST(d.updated_at, (${LAST_START_SQL}))` },
);

/**
 * Returns SQL that selects the latest attempts of a delivery `d` as a JSON array, oldest attempt first. Replays can add
 * many attempts, so their number is limited.
 *
 * @param attemptSql SQL of an attempt `t` as JSON
 */
export function buildAttemptsSql(attemptSql: string, maxAttempts: number): string {
  return `coalesce((SELECT json_agg(${attemptSql} ORDER BY t.number)
    FROM (SELECT * FROM webhooks.attempt WHERE delivery_id = d.delivery_id
      ORDER BY number DESC LIMIT ${maxAttempts}) t), '[]')`;
}

const MAX_ATTEMPTS = 200;

const deliveryRequest = z.strictObject({
  body: z
    .string()
    .nullable()
    .describe(
      `Body of the requests. Its encoding in UTF-8 is exactly the bytes that are signed and sent. The service creates it again from the event. It has the endpoint's current format. A body that another release of the service has sent can differ. Null if the event is no longer available.`,
    ),
  headers: z
    .record(z.string(), z.string())
    .describe(
      "Headers that are the same in all attempts. Further headers are those of HTTP, such as `Host`, the timestamp and signature of each attempt, the custom headers and `traceparent`.",
    ),
  customHeaderNames: z
    .array(z.string())
    .describe("Names of the endpoint's current custom headers. Their values are never returned."),
});

const detailedAttempt = webhookAttempt.extend(
  {
    timestamp: z
      .int()
      .describe(
        "Value of the attempt's timestamp headers, such as `webhook-timestamp`: Unix time in seconds. Signatures are never returned.",
      ),
  },
  { timestamp: "floor(extract(epoch FROM t.started_at))::bigint" },
);

const storedDelivery = webhookDelivery.extend(
  {
    attempts: z
      .array(detailedAttempt.schema)
      .max(MAX_ATTEMPTS)
      .describe(`Attempts, oldest first. If there are more than ${MAX_ATTEMPTS}, only the latest are listed.`),
  },
  { attempts: buildAttemptsSql(detailedAttempt.sql, MAX_ATTEMPTS) },
);

const { attempts, ...deliveryShape } = storedDelivery.schema.shape;

const deliveryDetail = z.strictObject({ ...deliveryShape, request: deliveryRequest, attempts });

const sqlBody = z.looseObject({
  delivery: z.looseObject({ id: uuid, attempts: z.array(z.unknown()) }),
  event: publicEventRow.nullable(),
  customHeaderNames: z.array(z.string()),
  bodyFormat: webhookBodyFormat,
});

export const getWebhookDelivery = definePartnerRead({
  operationId: "getWebhookDelivery",
  description:
    "Returns a delivery with the body and headers of its requests, and with the response to every attempt. Finished deliveries are deleted after 30 days.",
  response: z.strictObject({ ok: z.literal(true), delivery: deliveryDetail }),
  refusals: { webhook_endpoint_not_found: 404, webhook_delivery_not_found: 404 },
  sql: `SELECT CASE WHEN e.endpoint_id IS NULL THEN 'webhook_endpoint_not_found'
                    WHEN d.delivery_id IS NULL THEN 'webhook_delivery_not_found' END AS refusal,
    json_build_object('delivery', ${storedDelivery.sql},
      'event', (SELECT json_build_object(${PUBLIC_EVENT_JSON_SQL})
         FROM ${READ_MODEL_SCHEMA}.public_event e WHERE e.event_id = d.event_id AND e.type IS NOT NULL),
      'customHeaderNames', e.header_names, 'bodyFormat', e.body_format)::text AS body
    FROM (VALUES (1)) request
    ${ENDPOINT_JOIN_SQL}
    LEFT JOIN webhooks.delivery d ON d.delivery_id = $5::uuid AND d.endpoint_id = e.endpoint_id
      AND coalesce(d.clinic_id, d.application_id) = $1::uuid AND d.application_id = $2::uuid
      AND ($6::uuid[] IS NULL OR d.branch_id IS NULL OR d.branch_id = ANY ($6::uuid[]))
      AND ${buildIsDeliveryVisibleSql("d", { animalAccess: "$7::text", applicationId: "$2::uuid" })}`,
  getSqlParameters(request) {
    const installation = findInstallation(request.state);
    const deliveryId = parsePathId(request.pathParams.deliveryId);
    return [...getEndpointKey(request), deliveryId, installation?.branchIds, installation?.animalAccess];
  },
  completeBody(bodyText, { state: { environment }, brand }) {
    const { delivery, event, customHeaderNames, bodyFormat } = sqlBody.parse(JSON.parse(bodyText));
    const commonHeaders = createCommonHeaders(WEBHOOK_CONTENT_TYPES[bodyFormat]);
    const headers = { ...commonHeaders, ...createDeliveryIdHeaders(delivery.id, brand) };
    const standardBody = event && JSON.stringify(renderPublicEvent(event, environment));
    const body = standardBody === null ? null : formatWebhookBody(standardBody, bodyFormat).body;
    const { attempts, ...fields } = delivery;
    const request = { body, headers, customHeaderNames };
    return JSON.stringify({ delivery: { ...fields, request, attempts } });
  },
});
