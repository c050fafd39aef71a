import { z } from "zod";
import { type Environment, environment } from "../domain/events/fields.ts";
import { animalAccess, type OperationalEventType, scope, webhookEventType } from "../domain/events/partner.ts";
import { animalAccessText, publicAppointment } from "./records.ts";

const instant = z.iso.datetime({ precision: 3 });

const webhookEnvelope = {
  id: z.guid().meta({ description: "Id of the event. It is the same for all endpoints that receive the event." }),
  apiVersion: z.literal("v1"),
  createdAt: instant,
  environment,
  clinicId: z.guid(),
};

/** Envelope of events about an endpoint. Such events belong to no branch. */
const endpointEnvelope = {
  ...webhookEnvelope,
  clinicId: z.guid().nullable().describe("Clinic of the endpoint. Null if the endpoint belongs to the application."),
  branchId: z.null(),
};

const endpointReference = z.strictObject({ id: z.guid(), url: z.url() });

const defineOperationalBody = <Type extends OperationalEventType, Data extends z.ZodRawShape>(type: Type, data: Data) =>
  z.strictObject({
    ...endpointEnvelope,
    type: z.literal(type),
    data: z.strictObject({ endpoint: endpointReference, ...data }),
  });

export const endpointFailingBody = defineOperationalBody("endpoint.failing", {
  failingSince: instant.describe("Time of the first failed attempt since the last success."),
  failedAttempts: z.int().min(1).describe("Number of failed attempts since then."),
});
export const endpointDisabledBody = defineOperationalBody("endpoint.disabled", {
  reason: z
    .string()
    .describe("Reason as in `disabledReason` of the endpoint: `partner`, `operator`, `gone` or `no_success`."),
});
export const secretExpiringBody = defineOperationalBody("secret.expiring", {
  expiresAt: instant.describe("Time from which deliveries are no longer signed with the former secret."),
});

/** Fields of an appointment that can change and that partners receive in webhooks. */
export const changingFields = publicAppointment.schema.pick({
  ...{ scheduledAt: true, durationMinutes: true, status: true, resources: true },
}).shape;
export type ChangingField = keyof typeof changingFields;

const defineFieldChange = <Value extends z.ZodType>(value: Value) =>
  z.strictObject({ from: value, to: value }).optional();

const appointmentChange = z.strictObject({
  causedBy: z
    .enum(["clinic", "application", "system"])
    .describe(
      "Who changed the appointment: the clinic, a partner's application or the service itself. Changes that an application rehearses in its sandbox are those of the clinic.",
    ),
  fields: z
    .strictObject({
      scheduledAt: defineFieldChange(changingFields.scheduledAt),
      durationMinutes: defineFieldChange(changingFields.durationMinutes),
      status: defineFieldChange(changingFields.status),
      resources: defineFieldChange(changingFields.resources),
    })
    .describe("Fields that changed, with their old and new values."),
});
export type AppointmentChange = z.infer<typeof appointmentChange>;

/** Schema of the body of an appointment event, without notes and customer. */
export const appointmentBody = z.strictObject({
  ...webhookEnvelope,
  type: webhookEventType,
  branchId: z.guid(),
  data: z.strictObject({
    appointment: publicAppointment.omit("notes").schema,
    change: appointmentChange.optional().describe("The change. Absent in `appointment.created`."),
  }),
});
/** Schema of the body of a test event, which describes no change at the clinic. */
export const endpointTestBody = z.strictObject({
  ...endpointEnvelope,
  type: z.literal("endpoint.test"),
  data: z.strictObject({ test: z.literal(true) }),
});

const feedEnvelope = { ...webhookEnvelope, branchId: z.null() };

/** Schema of an event about the application's access to a clinic. */
export const installationBody = z.strictObject({
  ...feedEnvelope,
  type: z.enum(["installation.approved", "installation.access_changed", "installation.revoked"]),
  data: z.strictObject({
    installation: z
      .strictObject({
        scopes: z.array(scope),
        branchIds: z.array(z.guid()).nullable().describe("Branches that the installation covers; null for all."),
        animalAccess: animalAccess.describe(animalAccessText),
      })
      .nullable()
      .describe("Access from now on. Null if it was revoked."),
  }),
});

/** Schema of an event about a link of the application to an animal. */
export const animalLinkBody = z.strictObject({
  ...feedEnvelope,
  type: z.enum(["animal_link.created", "animal_link.withdrawn"]),
  data: z.strictObject({ link: z.strictObject({ id: z.guid(), animalId: z.guid() }) }),
});

/** Schema of an event about a sandbox that was filled with the fixture. */
const sandboxResetBody = z.strictObject({
  ...feedEnvelope,
  type: z.literal("sandbox.reset"),
  data: z.strictObject({ sandbox: z.strictObject({ generation: z.int().min(1), day: z.iso.date() }) }),
});

/** Schemas of the bodies by their names in the API reference. */
export const eventBodies = {
  AppointmentEvent: appointmentBody,
  TestEvent: endpointTestBody,
  EndpointFailingEvent: endpointFailingBody,
  EndpointDisabledEvent: endpointDisabledBody,
  SecretExpiringEvent: secretExpiringBody,
  InstallationEvent: installationBody,
  AnimalLinkEvent: animalLinkBody,
  SandboxResetEvent: sandboxResetBody,
};

export const eventBody = z.union(Object.values(eventBodies));

/** Body of an event that partners receive. */
export type WebhookBody = z.infer<typeof eventBody>;

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

/** SQL arguments of `json_build_object` for a row `e` of the read model `public_event`. */
export const PUBLIC_EVENT_JSON_SQL = `'eventId', e.event_id, 'type', e.type, 'occurredAt', rfc3339(e.occurred_at),
  'clinicId', e.clinic_id, 'branchId', e.branch_id, 'appointmentId', e.appointment_id, 'animalId', e.animal_id, 'data', e.data`;

/**
 * Creates the body of an event for webhooks and the feed. The order of its members is fixed, so all copies of an event
 * have the same bytes.
 */
export function renderPublicEvent(row: PublicEventRow, environment: Environment): WebhookBody {
  const { eventId: id, type, occurredAt: createdAt, clinicId, branchId, appointmentId, animalId, data } = row;
  const ids = { id: appointmentId, clinicId, branchId, animalId };
  const appointment = data.appointment && { ...ids, ...data.appointment, updatedAt: createdAt };
  return {
    ...{ id, type, apiVersion: "v1", createdAt, environment, clinicId, branchId },
    data: appointment ? { ...data, appointment } : data,
  } as unknown as WebhookBody;
}
