import { z } from "zod";
import { environment } from "../domain/events/fields.ts";
import type { WebhookBodyFormat } from "../domain/events/partner.ts";
import type { WebhookBody } from "./webhook-body.ts";

export const WEBHOOK_CONTENT_TYPES: Readonly<Record<WebhookBodyFormat, string>> = {
  standard: "application/json",
  cloudevents: "application/cloudevents+json",
};

/** CloudEvents `source` of events that belong to no clinic. */
const APPLICATION_SOURCE = "/application";

/**
 * Converts a webhook body to the format that an endpoint has chosen.
 *
 * @param body webhook body in the standard format, as JSON text
 * @returns body of the request to a receiver, and the value of its header `Content-Type`
 */
export function formatWebhookBody(body: string, format: WebhookBodyFormat) {
  const contentType = WEBHOOK_CONTENT_TYPES[format];
  return { contentType, body: format === "standard" ? body : JSON.stringify(toCloudEvent(JSON.parse(body))) };
}

/**
 * Converts a webhook body to a CloudEvent 1.0 in the structured mode. Extension attributes must have lower-case names.
 * An attribute cannot be null, so an event without clinic or branch has no `clinicid` or `branchid`.
 */
function toCloudEvent({ id, type, data, ...envelope }: WebhookBody) {
  const { appointment, endpoint } = data as { appointment?: { id: string }; endpoint?: { id: string } };
  const subject = appointment?.id ?? endpoint?.id;
  return {
    specversion: "1.0",
    id,
    source: envelope.clinicId === null ? APPLICATION_SOURCE : `urn:uuid:${envelope.clinicId}`,
    type,
    ...(subject !== undefined && { subject }),
    time: envelope.createdAt,
    datacontenttype: "application/json",
    apiversion: envelope.apiVersion,
    environment: envelope.environment,
    ...(envelope.clinicId !== null && { clinicid: envelope.clinicId }),
    ...(envelope.branchId !== null && { branchid: envelope.branchId }),
    data,
  };
}

/** Returns the schema of the CloudEvent for bodies with the given types and data. */
export function defineCloudEvent(body: { shape: { type: z.ZodType; data: z.ZodType } }): z.ZodObject {
  return z.strictObject({
    specversion: z.literal("1.0"),
    id: z.guid().meta({ description: "Id of the event. It is the same for all endpoints that receive the event." }),
    source: z.string().meta({
      description: `\`urn:uuid:\` and the id of the clinic, or \`${APPLICATION_SOURCE}\` for an event about an endpoint of the application.`,
    }),
    type: body.shape.type,
    subject: z.guid().optional().meta({ description: "Id of the appointment or endpoint that the event is about." }),
    time: z.iso.datetime({ precision: 3 }),
    datacontenttype: z.literal("application/json"),
    apiversion: z.literal("v1"),
    environment,
    clinicid: z.guid().optional().meta({ description: "Id of the clinic." }),
    branchid: z.guid().optional().meta({ description: "Id of the appointment's branch." }),
    data: body.shape.data,
  });
}
