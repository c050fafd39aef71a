import { z } from "zod";
import type { CatalogEvent } from "../domain/events/catalog.ts";
import type { Environment } from "../domain/events/fields.ts";
import { animalAccess, scope } from "../domain/events/partner.ts";
import type { RecordedEvent } from "../domain/events/recorded-event.ts";
import { getPublicType } from "./public-event.ts";
import { animalAccessText } from "./records.ts";
import {
  appointmentBody,
  createBody,
  endpointDisabledBody,
  endpointFailingBody,
  endpointTestBody,
  secretExpiringBody,
  webhookEnvelope,
} from "./webhook-body.ts";

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
type InstallationBody = z.infer<typeof installationBody>;

/** Schema of an event about a link of the application to an animal. */
export const animalLinkBody = z.strictObject({
  ...feedEnvelope,
  type: z.enum(["animal_link.created", "animal_link.withdrawn"]),
  data: z.strictObject({ link: z.strictObject({ id: z.guid(), animalId: z.guid() }) }),
});
type AnimalLinkBody = z.infer<typeof animalLinkBody>;

/** Schema of an event about a sandbox that was filled with the fixture. */
export const sandboxResetBody = z.strictObject({
  ...feedEnvelope,
  type: z.literal("sandbox.reset"),
  data: z.strictObject({ sandbox: z.strictObject({ generation: z.int().min(1), day: z.iso.date() }) }),
});
type SandboxResetBody = z.infer<typeof sandboxResetBody>;

export const feedEvent = z.union([
  appointmentBody,
  installationBody,
  animalLinkBody,
  sandboxResetBody,
  endpointTestBody,
  endpointFailingBody,
  endpointDisabledBody,
  secretExpiringBody,
]);

/** Body of an event that partners receive. */
export type WebhookBody = z.infer<typeof feedEvent>;

/** Returns the animal of the body's appointment; null if there is none. */
export function findAnimalId({ data }: WebhookBody): string | null {
  return "appointment" in data ? data.appointment.animalId : null;
}

/**
 * Creates the public event for an event about the application's access or sandbox.
 *
 * @returns undefined if partners do not receive the event, or the event has no clinic or no environment
 */
export function toAccessBody(
  event: RecordedEvent<CatalogEvent>,
): InstallationBody | AnimalLinkBody | SandboxResetBody | undefined {
  const { environment, clinicId, occurredAt: createdAt } = event.metadata;
  const data = toAccessData(event);
  if (!environment || !clinicId || !data) return undefined;
  const envelope = { id: event.id, type: getPublicType(event.type), createdAt, environment, clinicId, branchId: null };
  return createBody(envelope, data) as InstallationBody | AnimalLinkBody | SandboxResetBody;
}

/** Returns the data of the public event for an event about access or sandbox; undefined if partners do not receive it. */
export function toAccessData(
  event: CatalogEvent,
): (InstallationBody | AnimalLinkBody | SandboxResetBody)["data"] | undefined {
  switch (event.type) {
    case "InstallationApproved":
    case "InstallationNarrowed": {
      const { scopes, branchIds, animalAccess } = event.data;
      return { installation: { scopes, branchIds, animalAccess } };
    }
    case "InstallationRevoked":
      return { installation: null };
    case "AnimalLinked":
    case "AnimalLinkWithdrawn": {
      const { linkId: id, animalId } = event.data;
      // The withdrawal of a code that was not redeemed ends no link.
      return id === null ? undefined : { link: { id, animalId } };
    }
    case "SandboxReset": {
      const { generation, day } = event.data;
      return { sandbox: { generation, day } };
    }
    default:
      return undefined;
  }
}

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
