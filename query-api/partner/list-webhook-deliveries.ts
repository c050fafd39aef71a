import { z } from "zod";
import { createLimitParameter } from "../http/parameters.ts";
import { buildCursorSql, partnerPage } from "./cursor.ts";
import { DELIVERY_PAGE_SQL, deliveryFilters, toFilterValues } from "./delivery-filters.ts";
import {
  ATTEMPT_FIELDS_SQL,
  attemptRecord,
  buildAttemptsSql,
  DELIVERY_FIELDS_SQL,
  deliveryFields,
} from "./delivery-record.ts";
import { definePartnerRead, parsePathId } from "./read.ts";

/** Maximum number of attempts that are listed for one delivery. */
const MAX_ATTEMPTS = 50;

export const deliveryRecord = z.strictObject({
  ...deliveryFields,
  attempts: z.array(attemptRecord).max(MAX_ATTEMPTS),
});

export const listWebhookDeliveries = definePartnerRead({
  operationId: "listWebhookDeliveries",
  description:
    "Lists the deliveries of an endpoint, newest first, in pages. Each delivery contains its latest attempts. The list contains deliveries of test events, and of events at branches that the installation covers. If the request has several filters, a delivery must match all of them. Use the same filters for all pages.",
  parameters: { limit: createLimitParameter(100, 50), ...deliveryFilters },
  isPaged: true,
  response: z.strictObject({ ok: z.literal(true), deliveries: z.array(deliveryRecord), page: partnerPage }),
  refusals: { validation_failed: 400, webhook_endpoint_not_found: 404, event_log_unavailable: 503 },
  sql: `WITH ${DELIVERY_PAGE_SQL},
    page AS (SELECT * FROM page_and_next_row ORDER BY created_at DESC, delivery_id LIMIT $5::integer)
    SELECT CASE WHEN NOT EXISTS (SELECT FROM endpoint) THEN 'webhook_endpoint_not_found' END AS refusal,
    json_build_object(
      'deliveries', coalesce((SELECT json_agg(json_build_object(
        ${DELIVERY_FIELDS_SQL}, 'attempts', ${buildAttemptsSql(ATTEMPT_FIELDS_SQL, MAX_ATTEMPTS)})
        ORDER BY d.created_at DESC, d.delivery_id) FROM page d), '[]'),
      'page', json_build_object('limit', $5::integer, 'returned', (SELECT count(*) FROM page),
        'nextCursor', CASE WHEN (SELECT count(*) FROM page_and_next_row) > $5::integer THEN (
          SELECT ${buildCursorSql("created_at", "delivery_id")} FROM page
          ORDER BY created_at, delivery_id DESC LIMIT 1) END))::text AS body`,
  async getSqlParameters({ state, pathParams, parameters: { limit, ...filters }, cursor }, context) {
    const { clinicId, applicationId, environment } = state;
    const endpointId = parsePathId(pathParams.endpointId);
    const { branchIds } = state.installation;
    return [
      ...[clinicId, applicationId, environment, endpointId, limit, cursor?.time, cursor?.id, branchIds],
      ...(await toFilterValues(filters, endpointId, context)),
    ];
  },
});
