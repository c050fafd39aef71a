import { z } from "zod";
import { environment, instant, notes, uuid } from "../domain/events/fields.ts";
import { webhookEventType } from "../domain/events/partner.ts";

/**
 * What partners send. Command reads requests with these, query-api documents them; `meta` says in JSON Schema what
 * a refinement or a transformation hides from it.
 */

/** Read loosely, since each thing wrong with it has a code of its own. */
export const tokenRequest = z.object({
  client_id: z.string().meta({ format: "uuid", description: "The application's id." }),
  client_secret: z.string().meta({ description: "Shown once, when the credential was issued." }),
  grant_type: z.string().meta({ const: "client_credentials" }),
  environment: environment.meta({ description: "That of the base that is asked." }),
  scope: z
    .string()
    .optional()
    .meta({ description: "Scope names, separated by spaces. When left out, all that the application has." }),
});

export const createAppointmentRequest = z.strictObject({
  branchId: uuid.meta({ description: "Within the installation." }),
  animalId: uuid,
  scheduledAt: instant.meta({ format: "date-time", description: "In the future, with an offset." }),
  notes: notes.meta({ maxLength: 2000 }).optional(),
});

/**
 * One header of printable ASCII, spaces within included: what a string of HTTP's structured fields may hold, as the
 * draft of the Idempotency-Key header has it. Quotes are part of the key like every other character.
 */
export const idempotencyKey = z
  .string()
  .regex(/^[\x20-\x7e]{8,128}$/, "must be 8 to 128 printable ASCII characters")
  .meta({ minLength: 8, maxLength: 128 });

export const createWebhookEndpointRequest = z.strictObject({
  url: z.string().meta({
    format: "uri",
    description:
      "An https URL of a public address. In production the operator must approve its origin first. If the operator withdraws the approval, deliveries stay `pending` and go out once the origin is approved again.",
  }),
  events: z.array(webhookEventType).min(1, "must name at least one event type"),
});
