import { type Appointment, foldAppointment, type HappenedEvent } from "../domain/appointment/appointment.ts";
import type { CatalogEvent } from "../domain/events/catalog.ts";
import type { Environment } from "../domain/events/fields.ts";
import type { EventMetadata } from "../domain/events/metadata.ts";
import type { WebhookEventType } from "../domain/events/partner.ts";
import { type PartnerAppointment, toPartnerAppointment } from "./appointment-record.ts";

/** What every webhook delivery says, whatever it is of. */
interface Envelope {
  /** The event's id: the same for every endpoint that hears of it. */
  id: string;
  apiVersion: "v1";
  createdAt: string;
  environment: Environment;
  clinicId: string;
}

/** A mapping of the domain event, never the event itself; no notes, no customer. */
export interface AppointmentBody extends Envelope {
  type: WebhookEventType;
  branchId: string;
  data: { appointment: Omit<PartnerAppointment, "notes"> };
}

/** A test that somebody asked for: it tells of nothing that happened at the clinic. */
export interface TestBody extends Envelope {
  type: "endpoint.test";
  branchId: null;
  data: { test: true };
}

/** What a webhook delivery says. */
export type WebhookBody = AppointmentBody | TestBody;

type AppointmentHistory = readonly (HappenedEvent & {
  id: string;
  revision: bigint;
  metadata: EventMetadata;
})[];

/**
 * The public event that an appointment's latest event stands for.
 *
 * @param history the appointment's events from the first to the one to be told
 * @returns undefined where partners are told nothing of it: a history without a request, or without an environment
 */
export function toWebhookBody(history: AppointmentHistory): AppointmentBody | undefined {
  const last = history.at(-1);
  const appointment: Appointment | undefined = foldAppointment(history);
  if (!last?.metadata.environment || !appointment) return undefined;
  const { notes: _, ...record } = toPartnerAppointment(appointment, last.revision);
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

type TestedEvent = CatalogEvent & { type: "WebhookEndpointTested"; metadata: EventMetadata };

/**
 * The public event of a test.
 *
 * @returns undefined where its clinic and environment are not said
 */
export function toTestBody({ data: { testId }, metadata }: TestedEvent): TestBody | undefined {
  const { environment, clinicId, occurredAt } = metadata;
  if (!environment || !clinicId) return undefined;
  const envelope = { id: testId, apiVersion: "v1", createdAt: occurredAt, environment, clinicId } as const;
  return { ...envelope, type: "endpoint.test", branchId: null, data: { test: true } };
}
