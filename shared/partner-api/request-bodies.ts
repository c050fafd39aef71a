import { z } from "zod";
import { environment, instant, notes, uuid } from "../domain/events/fields.ts";
import { webhookEventType } from "../domain/events/partner.ts";

/**
 * Body of a token request. The schema accepts any text, because the operation reports each invalid member with its
 * own error code.
 */
export const tokenRequest = z.object({
  client_id: z.string().meta({ format: "uuid", description: "Id of the application." }),
  client_secret: z
    .string()
    .meta({ description: "Secret of a credential. It is shown once, when the credential is issued." }),
  grant_type: z.string().meta({ const: "client_credentials" }),
  environment: environment.meta({ description: "Environment. It must match the base URL." }),
  scope: z.string().optional().meta({
    description: "Scope names, separated by spaces. If absent or empty, the token has all scopes of the application.",
  }),
});

/**
 * Form of a token request (RFC 6749). Credentials may be in the Authorization header instead, and the base URL already
 * determines the environment.
 */
export const tokenForm = tokenRequest.partial({ client_id: true, client_secret: true, environment: true });

export const appointmentRequest = z.strictObject({
  branchId: uuid.meta({
    description: "Id of the appointment's branch. The installation must cover this branch.",
  }),
  animalId: uuid.meta({ description: "Id of the animal. The animal must belong to the clinic." }),
  scheduledAt: instant.meta({
    format: "date-time",
    description: "Start of the appointment. It must be in the future and have a UTC offset.",
  }),
  notes: notes.meta({ maxLength: 2000, description: "Free text for the clinic." }).optional(),
});

/**
 * Schema of the Idempotency-Key header. A key contains printable ASCII, including spaces. Quotes are part of the key,
 * although they are delimiters in HTTP structured fields.
 */
export const idempotencyKey = z
  .string()
  .regex(/^[\x20-\x7e]{8,128}$/, "must be 8 to 128 printable ASCII characters")
  .meta({ minLength: 8, maxLength: 128 });

export const webhookEndpointRequest = z.strictObject({
  url: z.string().meta({
    format: "uri",
    description:
      "HTTPS URL of a public host. In production, the operator must first approve the URL's origin. If the operator withdraws the approval, deliveries stay `pending` until the origin is approved again.",
  }),
  events: z
    .array(webhookEventType)
    .min(1, "must contain at least one event type")
    .meta({ description: "Event types to deliver." }),
});
