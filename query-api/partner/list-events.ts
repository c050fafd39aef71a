import { z } from "zod";
import { hasClinic } from "../../shared/partner-api/access.ts";
import { feedEvent, publicEventRow, renderPublicEvent } from "../../shared/partner-api/feed-event.ts";
import { createFilterParameter, createLimitParameter, waitParameter } from "../http/parameters.ts";
import { formatEventCursor } from "./event-cursor.ts";
import {
  applicationFeedSql,
  clinicFeedSql,
  getApplicationFeedParameters,
  getClinicFeedParameters,
  LATEST,
  readAfter,
} from "./event-feeds.ts";
import { definePartnerRead, type PartnerRequest, type ReadContext } from "./read.ts";

const location = z.object({ position: z.string(), eventId: z.string() });

const sqlBody = z.object({
  position: z.string(),
  epoch: z.string(),
  /** The newest event, if the request skips all events. */
  newest: location.nullable(),
  hasMore: z.boolean(),
  events: z.array(publicEventRow.extend({ position: z.string() })),
});

export const listEvents = definePartnerRead({
  operationId: "listEvents",
  description: `Lists the events of a clinic in the order in which they happened, without a time limit. Each event has the form and the id of a webhook body. The list begins with the approval of the installation.

Without the clinic header, the list instead contains \`installation.approved\`, \`installation.access_changed\`, \`installation.revoked\` and \`animal_link.withdrawn\` of your application at all clinics, and begins with its first installation. Clinics that have revoked their approval are included.

Pass \`cursor\` of a response as \`after\` of the next request. If there is no event yet, the request waits up to \`wait\` seconds for the first one. An application can have up to 200 waiting requests for each process of the service. More requests with \`wait\` return 429 \`too_many_waiting_requests\`.

Events about endpoints require the scope \`webhooks:read\`. \`animal_link.created\`, \`animal_link.withdrawn\`, \`installation.access_changed\`, \`installation.approved\` and \`sandbox.reset\` change which appointments are visible: after such an event, read the appointments again.`,
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
    invalid_cursor: 400,
    unknown_cursor: 422,
    too_many_waiting_requests: 429,
  },
  sql: clinicFeedSql,
  getSqlParameters: (request) => getClinicFeedParameters(request),
  alternative: {
    appliesTo: (state) => !hasClinic(state),
    sql: applicationFeedSql,
    getSqlParameters: getApplicationFeedParameters,
    completeBody,
  },
  findWait(bodyText, { parameters: { after, wait } }) {
    const { events, position, epoch } = sqlBody.parse(JSON.parse(bodyText));
    const isWaiting = events.length === 0 && after !== LATEST && wait > 0;
    return isWaiting ? { position: BigInt(position), epoch, timeoutMs: wait * 1_000 } : undefined;
  },
  completeBody: (bodyText, context, request) => completeBody(bodyText, context, request),
});

function completeBody(bodyText: string, _: ReadContext, { state, parameters }: PartnerRequest): string {
  const { after } = parameters as { after: string | null };
  const { events: rows, newest, epoch, hasMore } = sqlBody.parse(JSON.parse(bodyText));
  const last = rows.at(-1) ?? newest;
  const events = rows.map((row) => renderPublicEvent(row, state.environment));
  const cursor = last ? { position: last.position, eventId: last.eventId, epoch } : readAfter(after);
  return JSON.stringify({ events, cursor: cursor ? formatEventCursor(cursor) : null, hasMore });
}
