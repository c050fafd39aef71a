import { z } from "zod";
import { applicationEventType, type Scope } from "../../shared/domain/events/partner.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { hasClinic } from "../../shared/partner-api/access.ts";
import { buildIsDeliveryVisibleSql } from "../../shared/partner-api/animal-access.ts";
import {
  eventBody,
  PUBLIC_EVENT_JSON_SQL,
  publicEventRow,
  renderPublicEvent,
} from "../../shared/partner-api/webhook-body.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { createFilterParameter, createLimitParameter, waitParameter } from "../http/parameters.ts";
import { type EventCursor, formatEventCursor, parseEventCursor } from "./cursor.ts";
import {
  FIRST_MISSING_SQL,
  formatGaps,
  GAP_FIELDS_SQL,
  GAPS_SQL,
  type Gap,
  HAS_LOST_GAPS_SQL,
  IS_MISSING_SQL,
  nextGaps,
  parseGaps,
} from "./feed-gaps.ts";
import { definePartnerRead, getOwnerId, type PartnerRequest } from "./read.ts";

/** Value of the parameter `after` that skips all events until now. */
const LATEST = "latest";

/**
 * SQL condition for an event `e` that the caller may read. `i` is the installation at the event's clinic. The
 * installation must cover the event, and must have been approved before it. The feed of an application also contains
 * events about its access, even after the access has ended.
 */
const IS_VISIBLE_SQL = `e.clinic_id = i.clinic_id AND e.type IS NOT NULL
  AND (e.installation_id IS NULL OR e.installation_id = i.installation_id)
  AND (($2::uuid IS NULL AND e.type = ANY ($15::text[]) AND e.installation_id IS NOT NULL)
    OR (i.status = 'approved' AND e.position >= i.approved_position AND i.scopes ? 'appointments:read'
      AND (e.branch_id IS NULL OR ((i.branch_ids IS NULL OR i.branch_ids ? e.branch_id::text)
        AND ($4::uuid IS NULL OR e.branch_id = $4::uuid)))
      AND ${buildIsDeliveryVisibleSql("e", { animalAccess: "i.animal_access", applicationId: "$1::uuid" })}
      AND (e.endpoint_id IS NULL OR ($14::boolean AND i.scopes ? 'webhooks:read' AND EXISTS (
        SELECT FROM ${READ_MODEL_SCHEMA}.webhook_endpoint w
         WHERE w.endpoint_id = e.endpoint_id AND w.application_id = $1::uuid)))))`;

/**
 * Selects the events of a clinic ($2), or of all clinics of the application ($1), in the order of their positions.
 * These are events after the reader's position ($13), and earlier events that the reader may have missed. For each
 * clinic, the SQL reads at most one event more than the page contains.
 *
 * $3: environment. $4: branch header. $5 and $6: event of the cursor. $7: true to skip all events. $8: limit. $9 to
 * $12: gaps of the cursor. $14: true if the caller may read events about endpoints. $15: types of the events about the
 * access.
 */
const sql = `WITH own AS MATERIALIZED (
    SELECT i.* FROM ${READ_MODEL_SCHEMA}.installation i
      JOIN ${READ_MODEL_SCHEMA}.clinic c ON c.clinic_id = i.clinic_id AND c.environment = $3
     WHERE i.application_id = $1::uuid AND ($2::uuid IS NULL OR i.clinic_id = $2::uuid)),
  ${GAPS_SQL},
  page_and_next_row AS MATERIALIZED (
    SELECT found.* FROM own i CROSS JOIN LATERAL (
      SELECT e.* FROM ${READ_MODEL_SCHEMA}.public_event e
       WHERE ${IS_VISIBLE_SQL} AND e.position > least($13::bigint, ${FIRST_MISSING_SQL})
         AND (e.position > $13::bigint OR ${IS_MISSING_SQL})
       ORDER BY e.position LIMIT $8::integer + 1) found
     WHERE NOT $7::boolean
     ORDER BY found.position LIMIT $8::integer + 1)
  SELECT CASE WHEN ${HAS_LOST_GAPS_SQL} OR ($5::bigint IS NOT NULL AND NOT EXISTS (
      SELECT FROM ${READ_MODEL_SCHEMA}.public_event WHERE event_id = $6::uuid AND position = $5::bigint
    )) THEN 'unknown_cursor' END AS refusal,
  json_build_object('position', (SELECT position::text FROM ${READ_MODEL_SCHEMA}.checkpoint),
    'newest', (SELECT json_build_object('position', found.position::text, 'eventId', found.event_id)
      FROM own i CROSS JOIN LATERAL (
        SELECT e.position, e.event_id FROM ${READ_MODEL_SCHEMA}.public_event e
         WHERE ${IS_VISIBLE_SQL} ORDER BY e.position DESC LIMIT 1) found
     WHERE $7::boolean ORDER BY found.position DESC LIMIT 1),
    'hasMore', (SELECT count(*) FROM page_and_next_row) > $8::integer,
    ${GAP_FIELDS_SQL},
    'events', coalesce((SELECT json_agg(json_build_object('position', e.position::text, ${PUBLIC_EVENT_JSON_SQL}) ORDER BY e.position)
      FROM (SELECT * FROM page_and_next_row ORDER BY position LIMIT $8::integer) e), '[]'))::text AS body`;

const location = z.object({ position: z.string(), eventId: z.string() });

const sqlBody = z.object({
  position: z.string(),
  /** Newest visible event if the request skips all events; otherwise null. */
  newest: location.nullable(),
  hasMore: z.boolean(),
  quarantined: z.array(
    z.object({
      ...{ stream: z.string(), position: z.string() },
      ...{ clinicId: z.string().nullable(), installationId: z.string().nullable() },
    }),
  ),
  endedStreams: z.array(z.string()),
  events: z.array(publicEventRow.extend({ position: z.string() })),
});

const parameters = {
  after: createFilterParameter(
    `\`cursor\` of an earlier response. \`${LATEST}\` returns no events and the cursor of the newest event. If it is missing, the list starts with the first event.`,
    z.string(),
  ),
  wait: waitParameter,
  limit: createLimitParameter(100, 50),
};

export const listEvents = definePartnerRead({
  operationId: "listEvents",
  description: `Lists the events of a clinic in the order in which they happened, without a time limit. Each event has the form and the id of a webhook body. The list begins with the approval of the installation.

With the path \`/application/events\` and without the clinic header, the list contains the events of all clinics of your application, in the same order. After a clinic has revoked its approval, the list contains only \`installation.approved\`, \`installation.access_changed\`, \`installation.revoked\` and \`animal_link.withdrawn\` of this clinic.

Pass \`cursor\` of a response as \`after\` of the next request. If there is no event yet, the request waits up to \`wait\` seconds for the first one. An application can have up to 200 waiting requests for each process of the service. More requests with \`wait\` return 429 \`too_many_waiting_requests\`.

After a fault at the clinic, an event can be returned later than events that happened after it. Events can then also be returned again, with the same id.

Events about endpoints require the scope \`webhooks:read\`. Events about endpoints of the application itself are not listed. \`animal_link.created\`, \`animal_link.withdrawn\`, \`installation.access_changed\`, \`installation.approved\` and \`sandbox.reset\` change which appointments are visible: after such an event, read the appointments of its clinic again.`,
  parameters,
  response: z.strictObject({
    ok: z.literal(true),
    events: z.array(eventBody),
    cursor: z.string().nullable().describe("Value of `after` for the next request. Null if there is no event yet."),
    hasMore: z.boolean().describe("True if more events are available without waiting."),
  }),
  refusals: {
    invalid_cursor: 400,
    unknown_cursor: 422,
    too_many_waiting_requests: 429,
  },
  sql,
  getSqlParameters({ state, parameters: { after, limit }, lastWait }) {
    const { applicationId, environment, token, accessRecord } = state;
    const cursor = readAfter(after);
    if (cursor && cursor.subjectId !== getOwnerId(state)) throw new ApiError(422, "unknown_cursor");
    const gaps = lastWait?.gaps ?? (cursor ? parseGaps(cursor) : []);
    const hasScope = (scope: Scope) =>
      token.scopes.includes(scope) && accessRecord?.applicationScopes.includes(scope) === true;
    return [
      ...[
        applicationId,
        hasClinic(state) ? state.clinicId : null,
        environment,
        hasClinic(state) ? state.branchId : null,
      ],
      ...[cursor?.position, cursor?.eventId, after === LATEST, limit],
      ...(["stream", "position", "after", "clinicId"] as const).map((name) => gaps.map((gap) => gap[name])),
      ...[lastWait?.position ?? cursor?.position ?? -1, hasScope("webhooks:read"), applicationEventType.options],
    ];
  },
  findWait(bodyText, request) {
    const { after, wait } = request.parameters;
    const body = sqlBody.parse(JSON.parse(bodyText));
    const isWaiting = body.events.length === 0 && after !== LATEST && wait > 0;
    if (!isWaiting) return undefined;
    return { position: BigInt(body.position), gaps: findGaps(body, request), timeoutMs: wait * 1_000 };
  },
  completeBody(bodyText, request) {
    const body = sqlBody.parse(JSON.parse(bodyText));
    const cursor = findCursor(body, request);
    const events = body.events.map((row) => renderPublicEvent(row, request.state.environment));
    return JSON.stringify({ events, cursor: cursor ? formatEventCursor(cursor) : null, hasMore: body.hasMore });
  },
});

type SqlBody = z.infer<typeof sqlBody>;
type FeedRequest = PartnerRequest<typeof parameters>;

/** Returns the next cursor. If the page contains only missed events, the position of the cursor stays unchanged. */
function findCursor(body: SqlBody, request: FeedRequest): EventCursor | undefined {
  const cursor = readAfter(request.parameters.after);
  const last = body.events.at(-1) ?? body.newest;
  const location = last && !(cursor && BigInt(last.position) <= BigInt(cursor.position)) ? last : cursor;
  if (!location) return undefined;
  const { position, eventId } = location;
  return { position, eventId, subjectId: getOwnerId(request.state), memory: formatGaps(findGaps(body, request)) };
}

function findGaps({ events, newest, hasMore, quarantined, endedStreams }: SqlBody, request: FeedRequest): Gap[] {
  const { state, lastWait } = request;
  const cursor = readAfter(request.parameters.after);
  const last = events.at(-1);
  const isBehind = hasMore && last && cursor && BigInt(last.position) <= BigInt(cursor.position);
  return nextGaps(state.applicationId, lastWait?.gaps ?? (cursor ? parseGaps(cursor) : []), {
    ...{ quarantined, endedStreams, from: cursor?.position ?? newest?.position ?? "-1" },
    last: isBehind ? last.position : undefined,
  });
}

function readAfter(after: string | null): EventCursor | undefined {
  return after === null || after === LATEST ? undefined : parseEventCursor(after);
}
