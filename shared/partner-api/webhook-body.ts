import { z } from "zod";
import { foldAppointment } from "../domain/appointment/appointment.ts";
import type { AppointmentEvent } from "../domain/events/appointment.ts";
import type { CatalogEvent } from "../domain/events/catalog.ts";
import type { EventMetadata } from "../domain/events/metadata.ts";
import { webhookEventType } from "../domain/events/partner.ts";
import type { RecordedEvent } from "../eventstore/log.ts";
import { partnerAppointment, toPartnerAppointment } from "./appointment-record.ts";
import type { OperationalBody } from "./operational-body.ts";
import { webhookEnvelope } from "./webhook-envelope.ts";

/** Schema of the body of an appointment event, without notes and customer. */
export const appointmentBody = z.strictObject({
  ...webhookEnvelope,
  type: webhookEventType,
  branchId: z.guid(),
  data: z.strictObject({ appointment: partnerAppointment.omit({ notes: true }) }),
});
export type AppointmentBody = z.infer<typeof appointmentBody>;

/** Schema of the body of a test event, which describes no change at the clinic. */
export const endpointTestBody = z.strictObject({
  ...webhookEnvelope,
  type: z.literal("endpoint.test"),
  branchId: z.null(),
  data: z.strictObject({ test: z.literal(true) }),
});
export type EndpointTestBody = z.infer<typeof endpointTestBody>;

/** Body of a webhook delivery. */
export type WebhookBody = AppointmentBody | EndpointTestBody | OperationalBody;

/**
 * Creates the public event for the last event of an appointment.
 *
 * @param history the appointment's events up to the event to publish
 * @returns undefined if the first event is neither a request nor an import, or the last event has no environment
 */
export function toWebhookBody(history: readonly RecordedEvent<AppointmentEvent>[]): AppointmentBody | undefined {
  const lastEvent = history.at(-1);
  const appointment = foldAppointment(history);
  if (!lastEvent?.metadata.environment || !appointment) return undefined;
  const { notes: _, ...record } = toPartnerAppointment(appointment, lastEvent.revision);
  return {
    id: lastEvent.id,
    type: lastEvent.type === "AppointmentRequested" ? "appointment.created" : "appointment.updated",
    apiVersion: "v1",
    createdAt: lastEvent.metadata.occurredAt,
    environment: lastEvent.metadata.environment,
    clinicId: appointment.clinicId,
    branchId: appointment.branchId,
    data: { appointment: record },
  };
}

type EndpointTestedEvent = CatalogEvent & { type: "WebhookEndpointTested"; metadata: EventMetadata };

/**
 * Creates the public event for a requested test of an endpoint.
 *
 * @returns undefined if the event has no clinic or no environment
 */
export function toTestBody({ data: { testId }, metadata }: EndpointTestedEvent): EndpointTestBody | undefined {
  const { environment, clinicId, occurredAt } = metadata;
  if (!environment || !clinicId) return undefined;
  const commonFields = { id: testId, apiVersion: "v1", createdAt: occurredAt, environment, clinicId } as const;
  return { ...commonFields, type: "endpoint.test", branchId: null, data: { test: true } };
}
