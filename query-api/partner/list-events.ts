import { z } from "zod";
import { deriveInstallationId } from "../../shared/domain/events/ids.ts";
import { EventSchemaError } from "../../shared/domain/events/stored-event.ts";
import { buildIsDeliveryVisibleSql } from "../../shared/partner-api/animal-access.ts";
import { createFeedEvent, type FeedReader, feedEvent } from "../../shared/partner-api/feed-event.ts";
import { shareAppointmentReads } from "../../shared/partner-api/share-reads.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { createFilterParameter, createLimitParameter, waitParameter } from "../http/parameters.ts";
import { buildEpochSql, type EventCursor, formatEventCursor, parseEventCursor } from "./event-cursor.ts";
import { branchRefusalSql, buildIsBranchVisibleSql, definePartnerRead } from "./read.ts";

/** Value of the parameter `after` that skips all events until now. */
const LATEST = "latest";

const MAX_CONCURRENT_READS = 8;

/**
 * Is true for an event `e` that the installation `i` may read. $1: clinic, $4: application, $5: installation, $6: true if
 * the caller may read events about endpoints, $12: animal access.
 */
const isVisibleSql = `e.clinic_id = $1::uuid AND e.type IS NOT NULL AND e.position >= i.approved_position
    AND (e.branch_id IS NULL OR ${buildIsBranchVisibleSql("e.branch_id")})
    AND ${buildIsDeliveryVisibleSql("e", { animalAccess: "$12::text", applicationId: "$4::uuid" })}
    AND (e.installation_id IS NULL OR e.installation_id = $5::uuid)
    AND (e.endpoint_id IS NULL OR ($6::boolean AND EXISTS (
      SELECT FROM ${READ_MODEL_SCHEMA}.webhook_endpoint w
       WHERE w.endpoint_id = e.endpoint_id AND w.application_id = $4::uuid)))`;

const eventsSql = `${READ_MODEL_SCHEMA}.public_event e
  JOIN ${READ_MODEL_SCHEMA}.installation i ON i.installation_id = $5::uuid AND i.status = 'approved'`;

const EPOCH_SQL = buildEpochSql();

/**
 * Selects one row more than the page contains, to detect a next page. $7 and $8: cursor, $9: true to skip all events,
 * $10: limit, $11: epoch of the cursor.
 */
const pageAndNextRowSql = `SELECT e.position, e.event_id, e.stream, e.revision FROM ${eventsSql}
  WHERE ${isVisibleSql} AND NOT $9::boolean AND e.position > greatest(i.approved_position - 1, $7::bigint)
  ORDER BY e.position
  LIMIT $10::integer + 1`;

const location = z.object({ position: z.string(), eventId: z.string() });

const sqlBody = z.object({
  position: z.string(),
  epoch: z.string(),
  /** The newest event, if the request skips all events. */
  newest: location.nullable(),
  hasMore: z.boolean(),
  events: z.array(location.extend({ stream: z.string(), revision: z.string().transform(BigInt) })),
});

export const listEvents = definePartnerRead({
  operationId: "listEvents",
  description: `Lists the events of a clinic in the order in which they happened, without a time limit. Each event has the form and the id of a webhook body. The list begins with the approval of the installation.

Pass \`cursor\` of a response as \`after\` of the next request. If there is no event yet, the request waits up to \`wait\` seconds for the first one. An application can have up to 200 waiting requests for each process of the service. More requests with \`wait\` return 429 \`too_many_waiting_requests\`.

Events about endpoints require the scope \`webhooks:read\`. \`animal_link.created\`, \`animal_link.withdrawn\`, \`installation.access_changed\`, \`installation.approved\` and \`sandbox.reset\` change which appointments are visible: after such an event, read the appointments again. The erasure of an animal's owner ends a link without an event.`,
  parameters: {
    after: createFilterParameter(
      `\`cursor\` of an earlier response. \`${LATEST}\` returns no events and the cursor of the newest event. If it is missing, the list starts with the first event.`,
      z.string(),
    ),
    wait: waitParameter,
    limit: createLimitParameter(100, 50),
  },
  response: z.strictObject({
    ok: z.literal(true),
    events: z.array(feedEvent),
    cursor: z.string().nullable().describe("Value of `after` for the next request. Null if there is no event yet."),
    hasMore: z.boolean().describe("True if more events are available without waiting."),
  }),
  refusals: {
    branch_denied: 403,
    invalid_cursor: 400,
    validation_failed: 400,
    unknown_cursor: 422,
    too_many_waiting_requests: 429,
    event_log_unavailable: 503,
  },
  sql: `WITH page_and_next_row AS MATERIALIZED (${pageAndNextRowSql})
    SELECT coalesce(${branchRefusalSql}, CASE WHEN $7::bigint IS NOT NULL AND ($11::text <> ${EPOCH_SQL} OR NOT EXISTS (
        SELECT FROM ${READ_MODEL_SCHEMA}.public_event c
         WHERE c.event_id = $8::uuid AND c.position = $7::bigint AND c.clinic_id = $1::uuid
      )) THEN 'unknown_cursor' END) AS refusal,
    json_build_object('position', (SELECT position::text FROM ${READ_MODEL_SCHEMA}.checkpoint),
      'epoch', ${EPOCH_SQL},
      'newest', CASE WHEN $9::boolean THEN (
        SELECT json_build_object('position', e.position::text, 'eventId', e.event_id) FROM ${eventsSql}
         WHERE ${isVisibleSql} ORDER BY e.position DESC LIMIT 1) END,
      'hasMore', (SELECT count(*) FROM page_and_next_row) > $10::integer,
      'events', coalesce((SELECT json_agg(json_build_object('position', position::text, 'eventId', event_id,
          'stream', stream, 'revision', revision::text) ORDER BY position)
        FROM (SELECT * FROM page_and_next_row ORDER BY position LIMIT $10::integer) page), '[]'))::text AS body`,
  getSqlParameters({ state, parameters }) {
    const { clinicId, applicationId, installation, branchId, scopes } = state;
    const cursor = readAfter(parameters.after);
    return [
      clinicId,
      installation.branchIds,
      branchId,
      applicationId,
      deriveInstallationId(applicationId, clinicId),
      scopes.includes("webhooks:read"),
      cursor?.position,
      cursor?.eventId,
      parameters.after === LATEST,
      parameters.limit,
      cursor?.epoch,
      installation.animalAccess,
    ];
  },
  findWait(bodyText, { parameters: { after, wait } }) {
    const { events, position } = sqlBody.parse(JSON.parse(bodyText));
    const isWaiting = events.length === 0 && after !== LATEST && wait > 0;
    return isWaiting ? { position: BigInt(position), timeoutMs: wait * 1_000 } : undefined;
  },
  async completeBody(bodyText, { log }, { parameters: { after } }) {
    const { events: rows, newest, epoch, hasMore } = sqlBody.parse(JSON.parse(bodyText));
    const last = rows.at(-1) ?? newest ?? readAfter(after);
    const events = await createEvents(log, rows);
    const cursor = last ? formatEventCursor({ position: last.position, eventId: last.eventId, epoch }) : null;
    return JSON.stringify({ events, cursor, hasMore });
  },
});

function readAfter(after: string | null): EventCursor | undefined {
  return after === null || after === LATEST ? undefined : parseEventCursor(after);
}

type EventRow = z.output<typeof sqlBody>["events"][number];

/** An event that this release cannot read is omitted. The projectors have quarantined its stream. */
async function createEvents(log: FeedReader, rows: readonly EventRow[]): Promise<unknown[]> {
  const reader = { ...log, ...shareAppointmentReads(log, rows) };
  const events: unknown[] = [];
  const remainingRows = rows.entries();
  const createRemainingEvents = async () => {
    for (const [index, row] of remainingRows) {
      try {
        const event = await createFeedEvent(reader, row);
        if (event?.id === row.eventId) events[index] = event;
      } catch (error) {
        if (!(error instanceof EventSchemaError)) throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: MAX_CONCURRENT_READS }, createRemainingEvents));
  return events.filter((event) => event !== undefined);
}
