import { z } from "zod";
import { webhookBodyFormat } from "../../shared/domain/events/partner.ts";
import { buildIsDeliveryVisibleSql } from "../../shared/partner-api/animal-access.ts";
import { formatWebhookBody, WEBHOOK_CONTENT_TYPES } from "../../shared/partner-api/cloud-event.ts";
import { PUBLIC_EVENT_JSON_SQL, publicEventRow, renderPublicEvent } from "../../shared/partner-api/feed-event.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { createCommonHeaders, createDeliveryIdHeaders } from "../../shared/webhooks/delivery-headers.ts";
import { uuid } from "../http/fields.ts";
import { buildAttemptsSql, webhookAttempt, webhookDelivery } from "./delivery-record.ts";
import { definePartnerRead, findInstallation, getOwnerId, parsePathId } from "./read.ts";

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
    LEFT JOIN ${READ_MODEL_SCHEMA}.webhook_endpoint e ON e.endpoint_id = $4::uuid
      AND e.owner_id = $1::uuid AND e.application_id = $2::uuid AND e.environment = $3
    LEFT JOIN webhooks.delivery d ON d.delivery_id = $5::uuid AND d.endpoint_id = e.endpoint_id
      AND coalesce(d.clinic_id, d.application_id) = $1::uuid AND d.application_id = $2::uuid
      AND ($6::uuid[] IS NULL OR d.branch_id IS NULL OR d.branch_id = ANY ($6::uuid[]))
      AND ${buildIsDeliveryVisibleSql("d", { animalAccess: "$7::text", applicationId: "$2::uuid" })}`,
  getSqlParameters({ state, pathParams }) {
    const { applicationId, environment } = state;
    const installation = findInstallation(state);
    const ids = [parsePathId(pathParams.endpointId), parsePathId(pathParams.deliveryId)];
    const limits = [installation?.branchIds, installation?.animalAccess];
    return [getOwnerId(state), applicationId, environment, ...ids, ...limits];
  },
  completeBody(bodyText, { brand }, { state: { environment } }) {
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
