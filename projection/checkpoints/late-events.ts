import type { ClientBase, Pool } from "pg";
import { appointmentStreams } from "../../shared/domain/events/appointment.ts";
import { toStreamName } from "../../shared/domain/events/category.ts";
import { animalConsentStreams } from "../../shared/domain/events/consent.ts";
import {
  installationStreams,
  partnerApplicationStreams,
  webhookEndpointStreams,
} from "../../shared/domain/events/partner.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import type { WebhookCheckpointName } from "./checkpoint.ts";

/**
 * Maximum age of a late event: an event that the checkpoint passed before the event could be processed. Older events
 * get no deliveries, because the rows that prevent a second delivery are deleted by then.
 */
export const MAX_LATE_AGE = "30 days";

/**
 * CTE with the owners of endpoints that may have missed deliveries for events after `position`. While a stream that
 * grants access is quarantined, its row is missing, so no endpoint matches. The query must also define the CTE `ended`:
 * the streams that have left the quarantine.
 */
const UNMATCHED_ENDPOINTS_SQL = `
  endpoint AS MATERIALIZED (
    SELECT e.clinic_id, e.application_id, min(s.unmatched_position) AS position
      FROM ended s
      JOIN ${READ_MODEL_SCHEMA}.webhook_endpoint e
        ON s.stream IN ('${toStreamName(webhookEndpointStreams, "")}' || e.endpoint_id,
                        '${toStreamName(partnerApplicationStreams, "")}' || e.application_id)
        OR (s.stream LIKE '${toStreamName(animalConsentStreams, "")}%' AND e.clinic_id = s.clinic_id)
        OR EXISTS (SELECT FROM ${READ_MODEL_SCHEMA}.installation i
                    WHERE s.stream = '${toStreamName(installationStreams, "")}' || i.installation_id
                      AND i.application_id = e.application_id AND COALESCE(e.clinic_id, i.clinic_id) = i.clinic_id)
     WHERE e.status <> 'revoked'
     GROUP BY e.clinic_id, e.application_id
  )`;

/**
 * Public events that the endpoints of the CTE `endpoint` may have missed. Includes events that already have deliveries,
 * because the dispatcher adds no delivery twice.
 */
const UNMATCHED_EVENTS_SQL = `
  SELECT v.event_id, v.position, v.type, v.occurred_at
    FROM endpoint JOIN ${READ_MODEL_SCHEMA}.public_event v
      ON v.clinic_id = endpoint.clinic_id AND v.position > endpoint.position
  UNION
  SELECT v.event_id, v.position, v.type, v.occurred_at
    FROM endpoint
    JOIN ${READ_MODEL_SCHEMA}.installation i ON endpoint.clinic_id IS NULL AND i.application_id = endpoint.application_id
    JOIN ${READ_MODEL_SCHEMA}.public_event v ON v.installation_id = i.installation_id AND v.position > endpoint.position
  UNION
  SELECT v.event_id, v.position, v.type, v.occurred_at
    FROM endpoint
    JOIN ${READ_MODEL_SCHEMA}.webhook_endpoint own
      ON endpoint.clinic_id IS NULL AND own.clinic_id IS NULL AND own.application_id = endpoint.application_id
    JOIN ${READ_MODEL_SCHEMA}.public_event v ON v.endpoint_id = own.endpoint_id AND v.position > endpoint.position`;

/**
 * Records late events: public events that were processed while a stream that grants access to them was quarantined.
 *
 * @param schema read models in which the streams were quarantined
 */
async function recordUnmatchedEvents(client: ClientBase, schema: string): Promise<void> {
  await client.query(
    `WITH ended AS (
       SELECT stream, clinic_id, unmatched_position FROM ${schema}.quarantined_stream
        WHERE stream NOT IN (SELECT stream FROM ${READ_MODEL_SCHEMA}.quarantined_stream)),
     ${UNMATCHED_ENDPOINTS_SQL}
     INSERT INTO webhooks.late_event (event_id, position, needs_deliveries, needs_message)
     SELECT event_id, position, true, false FROM (${UNMATCHED_EVENTS_SQL}) e
      WHERE type IS NOT NULL AND occurred_at > now() - interval '${MAX_LATE_AGE}'
     ON CONFLICT (event_id) DO UPDATE SET needs_deliveries = true`,
  );
}

/**
 * Records late events: public events that other read models missed because streams were quarantined. Either the event
 * was missing, or it matched no endpoint. The caller's transaction must hold a lock that keeps the checkpoint from
 * moving.
 *
 * @param otherSchema schema of the other read models. If it was dropped, nothing is recorded
 */
export async function recordMissingEvents(
  client: ClientBase,
  otherSchema: string,
  { name, position }: { name: WebhookCheckpointName; position: bigint },
): Promise<void> {
  const { rowCount } = await client.query("SELECT FROM pg_namespace WHERE nspname = $1", [otherSchema]);
  if (rowCount === 0) return;
  await client.query(
    `INSERT INTO webhooks.late_event AS late (event_id, position, needs_deliveries, needs_message)
     SELECT e.event_id, e.position, $2, NOT $2 FROM ${READ_MODEL_SCHEMA}.public_event e
      WHERE e.type IS NOT NULL AND e.position <= $1
        AND e.position >= (SELECT min(position) FROM ${otherSchema}.quarantined_stream)
        AND e.occurred_at > now() - interval '${MAX_LATE_AGE}'
        AND (e.appointment_id IS NULL
             OR '${toStreamName(appointmentStreams, "")}' || e.appointment_id IN (SELECT stream FROM ${otherSchema}.quarantined_stream))
        AND NOT EXISTS (SELECT FROM ${otherSchema}.public_event o WHERE o.event_id = e.event_id)
     ON CONFLICT (event_id) DO UPDATE
       SET needs_deliveries = late.needs_deliveries OR excluded.needs_deliveries,
           needs_message = late.needs_message OR excluded.needs_message`,
    [position, name === "deliveries"],
  );
  if (name === "deliveries") await recordUnmatchedEvents(client, otherSchema);
}

const RETRY_INTERVAL = "10 minutes";

/**
 * Records that a public event cannot be processed, so that other events do not wait for it. The event becomes a late
 * event, and is tried again every ten minutes.
 *
 * @param cause error message without values of the event
 */
export async function setEventAside(
  db: Pool | ClientBase,
  { eventId, position }: { eventId: string; position: bigint },
  name: WebhookCheckpointName,
  cause: string,
): Promise<void> {
  await db.query(
    `INSERT INTO webhooks.late_event AS late (event_id, position, needs_deliveries, needs_message, cause, next_try_at)
     VALUES ($1, $2, $3, NOT $3, $4, now() + interval '${RETRY_INTERVAL}')
     ON CONFLICT (event_id) DO UPDATE
       SET needs_deliveries = late.needs_deliveries OR excluded.needs_deliveries,
           needs_message = late.needs_message OR excluded.needs_message,
           cause = excluded.cause, next_try_at = excluded.next_try_at`,
    [eventId, position, name === "deliveries", cause],
  );
}
