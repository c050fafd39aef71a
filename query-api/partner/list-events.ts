import { z } from "zod";
import { toStreamName } from "../../shared/domain/events/category.ts";
import { deriveInstallationId } from "../../shared/domain/events/ids.ts";
import {
  applicationEventType,
  installationStreams,
  type Scope,
  webhookEndpointStreams,
} from "../../shared/domain/events/partner.ts";
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
import { createFilterParameter, createIntegerParameter, createLimitParameter } from "../http/parameters.ts";
import { type EventCursor, formatEventCursor, HIDES_ROWS_SQL, MAX_POSITION, parseEventCursor } from "./cursor.ts";
import { definePartnerRead, getOwnerId, type PartnerRequest } from "./read.ts";

const INSTALLATION = toStreamName(installationStreams, "");

/** Value of the parameter `after` that skips all events until now. */
const LATEST = "latest";

/**
 * SQL condition for an event `e` that the caller may read. `i` is the installation at the event's clinic. The
 * installation must cover the event, and must have been approved before it. The feed of an application also contains
 * events about its access, even after the access has ended.
 */
const IS_VISIBLE_SQL = `e.clinic_id = i.clinic_id AND e.type IS NOT NULL
  AND (e.installation_id IS NULL OR e.installation_id = i.installation_id)
  AND (($2::uuid IS NULL AND e.type = ANY ($12::text[]) AND e.installation_id IS NOT NULL)
    OR (i.status = 'approved' AND e.position >= i.approved_position AND i.scopes ? 'appointments:read'
      AND (e.branch_id IS NULL OR ((i.branch_ids IS NULL OR i.branch_ids ? e.branch_id::text)
        AND ($4::uuid IS NULL OR e.branch_id = $4::uuid)))
      AND ${buildIsDeliveryVisibleSql("e", { animalAccess: "i.animal_access", applicationId: "$1::uuid" })}
      AND (e.endpoint_id IS NULL OR ($13::boolean AND i.scopes ? 'webhooks:read' AND EXISTS (
        SELECT FROM ${READ_MODEL_SCHEMA}.webhook_endpoint w
         WHERE w.endpoint_id = e.endpoint_id AND w.application_id = $1::uuid)))))`;

/**
 * SQL for a JSON array of the quarantined streams that can hide events from the reader. An installation whose stream is
 * quarantined may have no row, so the array contains the installations of all applications, with their stream names.
 * Endpoints without a clinic are excluded, because the feed of an application does not contain their events.
 */
const QUARANTINES_SQL = `(SELECT coalesce(json_agg(DISTINCT jsonb_build_object('clinicId', q.clinic_id,
      'installation', CASE WHEN q.stream LIKE '${INSTALLATION}%' THEN q.stream END)), '[]')
    FROM ${READ_MODEL_SCHEMA}.quarantined_stream q
   WHERE ${HIDES_ROWS_SQL} AND (q.clinic_id = $2::uuid
     OR (q.clinic_id IS NULL AND q.stream NOT LIKE '${toStreamName(webhookEndpointStreams, "")}%')
     OR ($2::uuid IS NULL AND (q.stream LIKE '${INSTALLATION}%' OR q.clinic_id IN (
       SELECT clinic_id FROM ${READ_MODEL_SCHEMA}.installation WHERE application_id = $1::uuid)))))`;

/**
 * Selects the events of a clinic ($2), or of all clinics of the application ($1), after a position ($11), in the
 * order of their positions. For each clinic, the SQL reads at most one event more than the page contains.
 *
 * $3: environment. $4: branch header. $5 and $6: event of the cursor. $7: true to skip all events. $8: limit. $9 and
 * $10: memory of the cursor. $12: types of the events about the access. $13: true if the caller may read events about
 * endpoints.
 */
const sql = `WITH own AS MATERIALIZED (
    SELECT i.* FROM ${READ_MODEL_SCHEMA}.installation i
      JOIN ${READ_MODEL_SCHEMA}.clinic c ON c.clinic_id = i.clinic_id AND c.environment = $3
     WHERE i.application_id = $1::uuid AND ($2::uuid IS NULL OR i.clinic_id = $2::uuid)),
  reader AS MATERIALIZED (
    SELECT position, tableoid::text AS build, CASE WHEN $7::boolean THEN position
      ELSE least($11::bigint, CASE WHEN $10::text <> tableoid::text THEN $9::bigint END) END AS start
    FROM ${READ_MODEL_SCHEMA}.checkpoint),
  page_and_next_row AS MATERIALIZED (
    SELECT found.* FROM own i CROSS JOIN LATERAL (
      SELECT e.* FROM ${READ_MODEL_SCHEMA}.public_event e
       WHERE ${IS_VISIBLE_SQL} AND e.position > (SELECT start FROM reader)
       ORDER BY e.position LIMIT $8::integer + 1) found
     WHERE NOT $7::boolean
     ORDER BY found.position LIMIT $8::integer + 1)
  SELECT CASE WHEN $5::bigint IS NOT NULL AND NOT EXISTS (
      SELECT FROM ${READ_MODEL_SCHEMA}.public_event WHERE event_id = $6::uuid AND position = $5::bigint
    ) THEN 'unknown_cursor' END AS refusal,
  json_build_object('position', (SELECT position::text FROM reader),
    'newest', (SELECT json_build_object('position', found.position::text, 'eventId', found.event_id)
      FROM own i CROSS JOIN LATERAL (
        SELECT e.position, e.event_id FROM ${READ_MODEL_SCHEMA}.public_event e
         WHERE ${IS_VISIBLE_SQL} ORDER BY e.position DESC LIMIT 1) found
     WHERE $7::boolean ORDER BY found.position DESC LIMIT 1),
    'hasMore', (SELECT count(*) FROM page_and_next_row) > $8::integer,
    'memory', (SELECT least(start, CASE build WHEN $10::text THEN $9::bigint END) || ':' || build FROM reader),
    'quarantines', ${QUARANTINES_SQL},
    'events', coalesce((SELECT json_agg(json_build_object('position', e.position::text, ${PUBLIC_EVENT_JSON_SQL}) ORDER BY e.position)
      FROM (SELECT * FROM page_and_next_row ORDER BY position LIMIT $8::integer) e), '[]'))::text AS body`;

const location = z.object({ position: z.string(), eventId: z.string() });

const sqlBody = z.object({
  position: z.string(),
  /** Newest visible event if the request skips all events; otherwise null. */
  newest: location.nullable(),
  hasMore: z.boolean(),
  memory: z.string(),
  quarantines: z.array(z.object({ clinicId: z.string().nullable(), installation: z.string().nullable() })),
  events: z.array(publicEventRow.extend({ position: z.string() })),
});

const parameters = {
  after: createFilterParameter(
    `\`cursor\` of an earlier response. \`${LATEST}\` returns no events and the cursor of the newest event. If it is missing, the list starts with the first event.`,
    z.string(),
  ),
  // Many proxies end a request without a response after 60 seconds.
  wait: createIntegerParameter("Maximum number of seconds to wait for the first event.", {
    ...{ minimum: 0, maximum: 25, default: 0 },
  }),
  limit: createLimitParameter(100, 50),
};

export const listEvents = definePartnerRead({
  operationId: "listEvents",
  description: `Lists the events of a clinic in the order in which they happened, without a time limit. Each event has the form and the id of a webhook body. The list begins with the approval of the installation.

With the path \`/application/events\` and without the clinic header, the list contains the events of all clinics of your application, in the same order. After a clinic has revoked its approval, the list contains only \`installation.approved\`, \`installation.access_changed\`, \`installation.revoked\` and \`animal_link.withdrawn\` of this clinic.

Pass \`cursor\` of a response as \`after\` of the next request. If there is no event yet, the request waits up to \`wait\` seconds for the first one. An application can have up to 200 waiting requests for each process of the service. More requests with \`wait\` return 429 \`too_many_waiting_requests\`.

After a fault at a clinic, an event can be returned later than events that happened after it. The list then repeats all events from this one on, with the same ids. It can also start at an earlier event.

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
    const memory = parseMemory(lastWait?.memory ?? cursor?.memory ?? "");
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
      ...[...memory, lastWait?.position ?? cursor?.position ?? -1],
      ...[applicationEventType.options, hasScope("webhooks:read")],
    ];
  },
  findWait(bodyText, request) {
    const { after, wait } = request.parameters;
    const body = sqlBody.parse(JSON.parse(bodyText));
    const isWaiting = body.events.length === 0 && after !== LATEST && wait > 0;
    if (!isWaiting) return undefined;
    return { position: BigInt(body.position), memory: findMemory(body, request), timeoutMs: wait * 1_000 };
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

function findCursor(body: SqlBody, request: FeedRequest): EventCursor | undefined {
  const location = body.events.at(-1) ?? body.newest ?? readAfter(request.parameters.after);
  if (!location) return undefined;
  const { position, eventId } = location;
  return { position, eventId, subjectId: getOwnerId(request.state), memory: findMemory(body, request) };
}

/**
 * Returns the memory of the next cursor: empty, or the position after which quarantines may have hidden events, and the
 * id of the read models. A quarantine ends only if a rebuild or another release replaces the read models. The reader then
 * returns to the position.
 */
function findMemory({ memory, quarantines }: SqlBody, { state: { applicationId } }: FeedRequest): string {
  const hidesEvents = quarantines.some(
    ({ clinicId, installation }) =>
      clinicId === null ||
      installation === null ||
      installation === `${INSTALLATION}${deriveInstallationId(applicationId, clinicId)}`,
  );
  return hidesEvents ? memory : "";
}

/** @throws {ApiError} 400 `invalid_cursor` */
function parseMemory(text: string): (string | undefined)[] {
  const [, after, build] = /^(-1|\d{1,19}):(\d{1,10})$/.exec(text) ?? [];
  if (text !== "" && (after === undefined || BigInt(after) > MAX_POSITION)) throw new ApiError(400, "invalid_cursor");
  return [after, build];
}

function readAfter(after: string | null): EventCursor | undefined {
  return after === null || after === LATEST ? undefined : parseEventCursor(after);
}
