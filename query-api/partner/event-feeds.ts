import { deriveInstallationId } from "../../shared/domain/events/ids.ts";
import { applicationEventType } from "../../shared/domain/events/partner.ts";
import { buildIsDeliveryVisibleSql } from "../../shared/partner-api/animal-access.ts";
import { PUBLIC_EVENT_JSON_SQL } from "../../shared/partner-api/feed-event.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { createEpoch, type Epoch, type EventCursor, parseEventCursor } from "./event-cursor.ts";
import { buildIsBranchVisibleSql, type PartnerRequest } from "./read.ts";

/** Value of the parameter `after` that skips all events until now. */
export const LATEST = "latest";

/** SQL of a feed whose caller is described by $1 to $3 and by the parameters from $11. */
interface Feed {
  /** Tables with the events `e`. */
  from: string;
  /** Is true for an event `e` that the caller may read. */
  isVisible: string;
  /** Is true for the event `c` of a cursor that the feed can have returned. */
  isOwnCursor: string;
  epoch: Epoch;
}

/**
 * Builds the statement of a feed. It selects one row more than the page contains, to detect a next page. $4 and $5:
 * cursor, $6: true to skip all events, $7: limit, $8: epoch of the cursor, $9 and $10: position and epoch of the last wait.
 */
function buildFeedSql({ from, isVisible, isOwnCursor, epoch }: Feed): string {
  return `WITH page_and_next_row AS MATERIALIZED (
      SELECT e.* FROM ${from}
       WHERE ${isVisible} AND NOT $6::boolean AND e.position > greatest($4::bigint, CASE WHEN $10::text = ${epoch.current} THEN $9::bigint END, -1)
       ORDER BY e.position
       LIMIT $7::integer + 1)
    SELECT CASE WHEN $4::bigint IS NOT NULL AND (NOT ${epoch.buildIsValidSql("$8::text")} OR NOT EXISTS (
        SELECT FROM ${READ_MODEL_SCHEMA}.public_event c
         WHERE c.event_id = $5::uuid AND c.position = $4::bigint AND ${isOwnCursor}
      )) THEN 'unknown_cursor' END AS refusal,
    json_build_object('position', (SELECT position::text FROM ${READ_MODEL_SCHEMA}.checkpoint),
      'epoch', ${epoch.current},
      'newest', CASE WHEN $6::boolean THEN (
        SELECT json_build_object('position', e.position::text, 'eventId', e.event_id) FROM ${from}
         WHERE ${isVisible} ORDER BY e.position DESC LIMIT 1) END,
      'hasMore', (SELECT count(*) FROM page_and_next_row) > $7::integer,
      'events', coalesce((SELECT json_agg(json_build_object('position', e.position::text, ${PUBLIC_EVENT_JSON_SQL}) ORDER BY e.position)
        FROM (SELECT * FROM page_and_next_row ORDER BY position LIMIT $7::integer) e), '[]'))::text AS body`;
}

/**
 * Events of a clinic. $1: clinic, $2 and $3: branches, $11: application, $12: installation, $13: true if the caller may
 * read events about endpoints, $14: animal access.
 */
export const clinicFeedSql = buildFeedSql({
  from: `${READ_MODEL_SCHEMA}.public_event e
    JOIN ${READ_MODEL_SCHEMA}.installation i ON i.installation_id = $12::uuid AND i.status = 'approved'`,
  isVisible: `e.clinic_id = $1::uuid AND e.type IS NOT NULL AND e.position >= i.approved_position
    AND (e.branch_id IS NULL OR ${buildIsBranchVisibleSql("e.branch_id")})
    AND ${buildIsDeliveryVisibleSql("e", { animalAccess: "$14::text", applicationId: "$11::uuid" })}
    AND (e.installation_id IS NULL OR e.installation_id = $12::uuid)
    AND (e.endpoint_id IS NULL OR ($13::boolean AND EXISTS (
      SELECT FROM ${READ_MODEL_SCHEMA}.webhook_endpoint w
       WHERE w.endpoint_id = e.endpoint_id AND w.application_id = $11::uuid)))`,
  isOwnCursor: "c.clinic_id = $1::uuid",
  epoch: createEpoch("$1::uuid"),
});

const ownInstallationsSql = `SELECT i.installation_id FROM ${READ_MODEL_SCHEMA}.installation i
   JOIN ${READ_MODEL_SCHEMA}.clinic c ON c.clinic_id = i.clinic_id AND c.environment = $2
  WHERE i.application_id = $1::uuid`;

/**
 * Events about the access of an application at all clinics, including those that have revoked it. $1: application,
 * $2: environment, $3: types.
 */
export const applicationFeedSql = buildFeedSql({
  from: `${READ_MODEL_SCHEMA}.public_event e`,
  isVisible: `e.installation_id IN (${ownInstallationsSql}) AND e.type = ANY ($3::text[])`,
  isOwnCursor: `c.installation_id IN (${ownInstallationsSql})`,
  epoch: createEpoch(`SELECT clinic_id FROM ${READ_MODEL_SCHEMA}.installation WHERE application_id = $1::uuid`),
});

type FeedRequest = PartnerRequest & { parameters: { after: string | null; limit: number } };

export function getClinicFeedParameters(request: FeedRequest): unknown[] {
  const { clinicId, applicationId, installation, branchId, scopes } = request.state;
  return [
    clinicId,
    installation.branchIds,
    branchId,
    ...getPageParameters(request),
    applicationId,
    deriveInstallationId(applicationId, clinicId),
    scopes.includes("webhooks:read"),
    installation.animalAccess,
  ];
}

export function getApplicationFeedParameters(request: FeedRequest): unknown[] {
  const { applicationId, environment } = request.state;
  return [applicationId, environment, applicationEventType.options, ...getPageParameters(request)];
}

function getPageParameters({ parameters: { after, limit }, lastWait }: FeedRequest): unknown[] {
  const cursor = readAfter(after);
  return [
    cursor?.position,
    cursor?.eventId,
    after === LATEST,
    limit,
    cursor?.epoch,
    lastWait?.position,
    lastWait?.epoch,
  ];
}

export function readAfter(after: string | null): EventCursor | undefined {
  return after === null || after === LATEST ? undefined : parseEventCursor(after);
}
