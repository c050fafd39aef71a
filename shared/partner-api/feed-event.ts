import { z } from "zod";
import type { Environment } from "../domain/events/fields.ts";
import { createBody, type WebhookBody } from "./webhook-body.ts";

/** Row of the read model `public_event`, as {@link PUBLIC_EVENT_JSON_SQL} selects it. */
export const publicEventRow = z.object({
  eventId: z.string(),
  type: z.string(),
  occurredAt: z.string(),
  clinicId: z.string().nullable(),
  branchId: z.string().nullable(),
  appointmentId: z.string().nullable(),
  animalId: z.string().nullable(),
  data: z.looseObject({ appointment: z.looseObject({}).optional() }),
});

export type PublicEventRow = z.infer<typeof publicEventRow>;

/** Members of a JSON object for a row `e` of the read model `public_event`. */
export const PUBLIC_EVENT_JSON_SQL = `'eventId', e.event_id, 'type', e.type, 'occurredAt', rfc3339(e.occurred_at),
  'clinicId', e.clinic_id, 'branchId', e.branch_id, 'appointmentId', e.appointment_id, 'animalId', e.animal_id, 'data', e.data`;

/** Creates the body that webhooks and feed have for a row. */
export function renderPublicEvent(row: PublicEventRow, environment: Environment): WebhookBody {
  const { eventId, type, occurredAt, clinicId, branchId, appointmentId, animalId, data } = row;
  const envelope = { id: eventId, type, createdAt: occurredAt, environment, clinicId, branchId };
  if (!data.appointment) return createBody(envelope, data) as WebhookBody;
  const ids = { id: appointmentId, clinicId, branchId, animalId };
  const appointment = { ...ids, ...data.appointment, updatedAt: occurredAt };
  return createBody(envelope, { ...data, appointment }) as unknown as WebhookBody;
}
