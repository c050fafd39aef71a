import { z } from "zod";
import { instant as anyInstant, uuid as anyUuid } from "../../shared/domain/events/fields.ts";
import { deliveredEventType, deliveredEventTypes } from "../../shared/domain/events/partner.ts";
import { hasClinic } from "../../shared/partner-api/access.ts";
import { buildIsDeliveryVisibleSql } from "../../shared/partner-api/animal-access.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { deriveWebhookDeliveryId } from "../../shared/webhooks/delivery-id.ts";
import { createFilterParameter, createLimitParameter } from "../http/parameters.ts";
import { buildPageSql, partnerPage } from "./cursor.ts";
import { definePartnerRead, findInstallation, getEndpointKey, type PartnerRequest, parsePathId } from "./read.ts";
import { buildAttemptsSql, deliveryStatus, webhookAttempt, webhookDelivery } from "./webhook-delivery.ts";

const dateTime = anyInstant.meta({ format: "date-time" });

/** Filters of the list of deliveries. A listed delivery matches all filters. */
const deliveryFilters = {
  status: createFilterParameter("Returns only deliveries with this status.", deliveryStatus),
  type: createFilterParameter("Returns only deliveries of this event type.", deliveredEventType),
  appointmentId: createFilterParameter("Returns only deliveries about this appointment.", anyUuid),
  from: createFilterParameter("Returns only deliveries that were created at this time or later.", dateTime),
  to: createFilterParameter("Returns only deliveries that were created before this time.", dateTime),
};

/** Converts a status to the column `unsuccessful_status`. */
const toUnsuccessfulStatus = (status: z.infer<typeof deliveryStatus>) =>
  status === "pending" || status === "delivered" ? "none" : status;

const eventIdsStatement = {
  name: "events of an appointment",
  text: `SELECT coalesce(array_agg(event_id), '{}') AS "eventIds" FROM ${READ_MODEL_SCHEMA}.public_event
          WHERE appointment_id = $1::uuid AND type IS NOT NULL`,
};

/**
 * Derives the ids that deliveries of an appointment's events to an endpoint have or would have. So deliveries need no
 * index by appointment.
 */
async function deriveDeliveryIds(readRow: PartnerRequest["readRow"], appointmentId: string, endpointId: string) {
  const { eventIds } = await readRow<{ eventIds: string[] }>(eventIdsStatement, [appointmentId]);
  return eventIds.map((id) => deriveWebhookDeliveryId(id, endpointId));
}

/**
 * Maximum number of an endpoint's pending deliveries to look up by id. If there are more, the SQL searches by time,
 * newest first. It finds a page quickly, because most of the latest deliveries are then pending.
 */
const MAX_PENDING_LOOKUPS = 5_000;

/** Maximum number of deliveries in an installation's branches to look up by id, instead of a search by time. */
const MAX_BRANCH_LOOKUPS = 500;

const buildBranchSql = (condition: string) => `(SELECT delivery_id FROM webhooks.delivery
    WHERE endpoint_id = $4::uuid AND ${condition} AND $13::uuid[] IS NULL LIMIT ${MAX_BRANCH_LOOKUPS + 1})`;

/** Conditions of the partial indexes that together contain all pending deliveries. */
const PENDING_INDEX_CONDITIONS = ["NOT is_blocked", "is_blocked"];

const buildPendingSql = (indexCondition: string) => `(SELECT delivery_id FROM webhooks.pending_delivery
    WHERE endpoint_id = $4::uuid AND ${indexCondition} AND $9::text = 'pending' AND $13::uuid[] IS NULL
    LIMIT ${MAX_PENDING_LOOKUPS + 1})`;

const COLUMNS_SQL =
  "d.delivery_id, d.event_id, d.event_type, d.appointment_id, d.status, d.next_attempt_at, d.created_at, d.updated_at";

/** Columns that {@link COLUMNS_SQL} and {@link IS_MATCH_SQL} use. query-api has no right to read all columns. */
const LOOKUP_COLUMNS = `delivery_id, event_id, event_type, appointment_id, status, next_attempt_at, created_at, updated_at, endpoint_id,
  clinic_id, application_id, branch_id, animal_id`;

const toUtcSql = (parameter: string) => `${parameter}::timestamptz AT TIME ZONE 'UTC'`;

/** Expression for the time of creation, exactly as in the index, so that Postgres can use the index. */
const CREATED_AT_SQL = "(d.created_at AT TIME ZONE 'UTC')";

/**
 * SQL condition for a delivery `d` that belongs to the list. The second condition about the cursor's time ($6) is
 * redundant with the first. The first lets the search in the index start at this time.
 */
const IS_MATCH_SQL = `d.endpoint_id = $4::uuid AND coalesce(d.clinic_id, d.application_id) = $1::uuid AND d.application_id = $2::uuid
    AND ($8::uuid[] IS NULL OR d.branch_id IS NULL OR d.branch_id = ANY ($8::uuid[]))
    AND ${buildIsDeliveryVisibleSql("d", { animalAccess: "$15::text", applicationId: "$2::uuid" })}
    AND ($9::text IS NULL OR d.status = $9::text)
    AND ${CREATED_AT_SQL} >= coalesce(${toUtcSql("$11")}, '-infinity')
    AND ${CREATED_AT_SQL} < coalesce(${toUtcSql("$12")}, 'infinity')
    AND ${CREATED_AT_SQL} <= coalesce(${toUtcSql("$6")}, 'infinity')
    AND ($6::timestamptz IS NULL OR d.created_at < $6::timestamptz OR d.delivery_id > $7::uuid)`;

const NEWEST_FIRST_SQL = `ORDER BY ${CREATED_AT_SQL} DESC, d.delivery_id LIMIT $5::integer + 1`;

/**
 * SQL of the CTEs `endpoint` and `page_and_next_row`. `endpoint` has one row if the endpoint belongs to the caller. If
 * it is empty, Postgres does not search the endpoint's deliveries. `page_and_next_row` has one row more than the page
 * contains, to detect a next page.
 *
 * $1: owner of the endpoint. $2: application. $3: environment. $4: endpoint. $5: limit. $6 and $7: cursor. $8: branches
 * of the installation. $9: status, or null. $10: event types. $11 and $12: time range. $13: ids, or null for all
 * deliveries of the endpoint. $14: values of `unsuccessful_status`. $15: animal access.
 *
 * In the lookup of an id, LIMIT 1 makes Postgres check the other conditions after the lookup, so that it uses the
 * primary key.
 */
const DELIVERY_PAGE_SQL = `endpoint AS MATERIALIZED (
    SELECT FROM ${READ_MODEL_SCHEMA}.webhook_endpoint
     WHERE endpoint_id = $4::uuid AND owner_id = $1::uuid AND application_id = $2::uuid AND environment = $3
  ),
  pending AS MATERIALIZED (
    ${PENDING_INDEX_CONDITIONS.map(buildPendingSql).join(" UNION ALL ")}
  ),
  covered AS MATERIALIZED (
    SELECT delivery_id FROM (
      SELECT found.* FROM unnest($8::uuid[]) AS b (id) CROSS JOIN LATERAL ${buildBranchSql("branch_id = b.id")} found
      UNION ALL ${buildBranchSql("branch_id IS NULL AND $8::uuid[] IS NOT NULL")}) c LIMIT ${MAX_BRANCH_LOOKUPS + 1}
  ),
  lookup AS MATERIALIZED (
    SELECT CASE WHEN $13::uuid[] IS NOT NULL THEN $13::uuid[]
                WHEN $9::text = 'pending' AND (SELECT count(*) FROM pending) <= ${MAX_PENDING_LOOKUPS}
                THEN ARRAY(SELECT delivery_id FROM pending)
                WHEN $8::uuid[] IS NOT NULL AND (SELECT count(*) FROM covered) <= ${MAX_BRANCH_LOOKUPS}
                THEN ARRAY(SELECT delivery_id FROM covered) END AS ids
      FROM endpoint
  ),
  page_and_next_row AS MATERIALIZED (
    SELECT * FROM (
      SELECT found.* FROM lookup
       CROSS JOIN unnest($14::text[]) AS s (unsuccessful_status)
       CROSS JOIN unnest($10::text[]) AS t (event_type)
       CROSS JOIN LATERAL (
         SELECT ${COLUMNS_SQL} FROM webhooks.delivery d
          WHERE d.unsuccessful_status = s.unsuccessful_status AND d.event_type = t.event_type AND ${IS_MATCH_SQL}
          ${NEWEST_FIRST_SQL}) found
       WHERE lookup.ids IS NULL
      UNION ALL
      SELECT ${COLUMNS_SQL} FROM lookup
       CROSS JOIN LATERAL unnest(lookup.ids) AS i (delivery_id)
       CROSS JOIN LATERAL (SELECT ${LOOKUP_COLUMNS} FROM webhooks.delivery WHERE delivery_id = i.delivery_id LIMIT 1) d
       WHERE d.event_type = ANY ($10::text[]) AND ${IS_MATCH_SQL}
    ) d
    ${NEWEST_FIRST_SQL}
  )`;

const MAX_LISTED_ATTEMPTS = 50;

export const listedDelivery = webhookDelivery.extend(
  { attempts: z.array(webhookAttempt.schema).max(MAX_LISTED_ATTEMPTS) },
  { attempts: buildAttemptsSql(webhookAttempt.sql, MAX_LISTED_ATTEMPTS) },
);

export const listWebhookDeliveries = definePartnerRead({
  operationId: "listWebhookDeliveries",
  description:
    "Lists the deliveries of an endpoint, newest first, in pages. Each delivery contains its latest attempts. The list contains deliveries of test events, and of events about branches and animals that the installation covers. If the request has several filters, a delivery must match all of them. Use the same filters for all pages.",
  parameters: { limit: createLimitParameter(100, 50), ...deliveryFilters },
  isPaged: true,
  response: z.strictObject({ ok: z.literal(true), deliveries: z.array(listedDelivery.schema), page: partnerPage }),
  refusals: { webhook_endpoint_not_found: 404 },
  sql: `WITH ${DELIVERY_PAGE_SQL},
    page AS (SELECT * FROM page_and_next_row ORDER BY created_at DESC, delivery_id LIMIT $5::integer)
    SELECT CASE WHEN NOT EXISTS (SELECT FROM endpoint) THEN 'webhook_endpoint_not_found' END AS refusal,
    json_build_object(
      'deliveries', coalesce((SELECT json_agg(${listedDelivery.sql}
        ORDER BY d.created_at DESC, d.delivery_id) FROM page d), '[]'),
      'page', ${buildPageSql("created_at", "delivery_id", "$5", "created_at, delivery_id DESC")}
    )::text AS body`,
  async getSqlParameters(request) {
    const { state, pathParams, parameters, cursor, readRow } = request;
    const { limit, status, type, appointmentId, from, to } = parameters;
    const installation = findInstallation(state);
    const types = type === null ? deliveredEventTypes[hasClinic(state) ? "clinic" : "application"] : [type];
    const endpointId = parsePathId(pathParams.endpointId);
    const deliveryIds =
      appointmentId && endpointId ? await deriveDeliveryIds(readRow, appointmentId, endpointId) : null;
    const unsuccessfulStatuses = (status === null ? deliveryStatus.options : [status]).map(toUnsuccessfulStatus);
    return [
      ...getEndpointKey(request),
      ...[limit, cursor?.time, cursor?.id, installation?.branchIds],
      ...[status, types, from, to, deliveryIds, [...new Set(unsuccessfulStatuses)], installation?.animalAccess],
    ];
  },
});
