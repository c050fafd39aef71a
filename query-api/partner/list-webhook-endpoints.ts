import { z } from "zod";
import { webhookEventType } from "../../shared/events/partner.ts";
import { definePartnerRead } from "./read.ts";

const uuid = z.guid();
const instant = z.iso.datetime({ precision: 3 });

/** The newest ones are listed, revoked ones among them. */
const MOST_LISTED = 500;

export const webhookEndpoint = z.strictObject({
  id: uuid,
  clinicId: uuid,
  url: z.url(),
  events: z.array(webhookEventType),
  status: z.enum(["active", "disabled", "revoked"]),
  disabledReason: z.string().nullable(),
  createdAt: instant,
  updatedAt: instant,
});

export const listWebhookEndpoints = definePartnerRead({
  operationId: "listWebhookEndpoints",
  parameters: {},
  paged: false,
  response: z.strictObject({ ok: z.literal(true), endpoints: z.array(webhookEndpoint) }),
  refusals: {},
  sql: `SELECT NULL AS refusal, json_build_object('endpoints', coalesce(json_agg(json_build_object(
      'id', e.endpoint_id, 'clinicId', e.clinic_id, 'url', e.url, 'events', e.events, 'status', e.status,
      'disabledReason', e.disabled_reason, 'createdAt', rfc3339(e.created_at),
      'updatedAt', rfc3339(e.updated_at)) ORDER BY e.created_at DESC, e.endpoint_id), '[]'))::text AS body
    FROM (
      SELECT * FROM read_model.webhook_endpoint
      WHERE clinic_id = $1::uuid AND application_id = $2::uuid AND environment = $3
      ORDER BY created_at DESC, endpoint_id
      LIMIT ${MOST_LISTED}
    ) e`,
  values: ({ state: { clinicId, applicationId, environment } }) => [clinicId, applicationId, environment],
});
