import type { Appointment, HappenedEvent } from "../appointment/appointment.ts";
import { foldAppointment } from "../appointment/appointment.ts";
import type { Environment } from "../events/fields.ts";
import type { EventMetadata } from "../events/metadata.ts";
import type { WebhookEventType } from "../events/partner.ts";
import { type PartnerAppointment, toPartnerAppointment } from "./appointment-record.ts";

/** What a webhook delivery says: a mapping of the domain event, never the event itself; no notes, no customer. */
export interface WebhookBody {
  /** The event's id: the same for every endpoint that hears of it. */
  id: string;
  type: WebhookEventType;
  apiVersion: "v1";
  createdAt: string;
  environment: Environment;
  clinicId: string;
  branchId: string;
  data: { appointment: Omit<PartnerAppointment, "notes"> };
}

type AppointmentHistory = readonly (HappenedEvent & { id: string; metadata: EventMetadata })[];

/**
 * The public event that an appointment's latest event stands for.
 *
 * @param history the appointment's events from the first to the one to be told
 * @returns undefined where partners are told nothing of it: a history without a request, or without an environment
 */
export function toWebhookBody(history: AppointmentHistory): WebhookBody | undefined {
  const last = history.at(-1);
  const appointment: Appointment | undefined = foldAppointment(history);
  if (!last?.metadata.environment || !appointment) return undefined;
  const { notes: _, ...record } = toPartnerAppointment(appointment);
  return {
    id: last.id,
    type: last.type === "AppointmentRequested" ? "appointment.created" : "appointment.updated",
    apiVersion: "v1",
    createdAt: last.metadata.occurredAt,
    environment: last.metadata.environment,
    clinicId: appointment.clinicId,
    branchId: appointment.branchId,
    data: { appointment: record },
  };
}
