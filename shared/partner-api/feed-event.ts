import { z } from "zod";
import type { CatalogEvent } from "../domain/events/catalog.ts";
import { toStreamName } from "../domain/events/category.ts";
import { animalConsentStreams } from "../domain/events/consent.ts";
import { animalAccess, installationStreams, scope } from "../domain/events/partner.ts";
import type { RecordedEvent } from "../domain/events/recorded-event.ts";
import { sandboxStreams } from "../domain/events/sandbox.ts";
import type { EventLog } from "../eventstore/log.ts";
import { animalAccessText } from "./records.ts";
import {
  appointmentBody,
  createWebhookBody,
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

/** Schema of an event whose body cannot be created. */
export const unavailableBody = z.strictObject({
  id: webhookEnvelope.id,
  type: z.string(),
  apiVersion: webhookEnvelope.apiVersion,
  environment: webhookEnvelope.environment,
  clinicId: webhookEnvelope.clinicId,
  branchId: z.guid().nullable(),
  appointmentId: z.guid().nullable().describe("Id of the event's appointment. Null if the event has no appointment."),
  data: z.null().describe("Null if the event is not available. Read the appointment instead."),
});

export const feedEvent = z.union([
  appointmentBody,
  installationBody,
  animalLinkBody,
  sandboxResetBody,
  endpointTestBody,
  endpointFailingBody,
  endpointDisabledBody,
  secretExpiringBody,
  unavailableBody,
]);

/** Body of an event that partners receive. */
export type WebhookBody = Exclude<z.infer<typeof feedEvent>, z.infer<typeof unavailableBody>>;

/** Returns the animal of the body's appointment; null if there is none. */
export function findAnimalId({ data }: WebhookBody): string | null {
  return "appointment" in data ? data.appointment.animalId : null;
}

export type FeedReader = Pick<EventLog, "read" | "readLast">;

/**
 * Creates the public event of a stored event, in the form of webhook bodies.
 *
 * @returns undefined if the event does not exist or is not public
 * @throws {LogUnavailableError}
 * @throws {EventSchemaError} if the event or an earlier event of its stream is unreadable
 */
export async function createFeedEvent(
  log: FeedReader,
  source: { stream: string; revision: bigint },
): Promise<WebhookBody | undefined> {
  const { stream, revision } = source;
  const isOfStateless = [installationStreams, animalConsentStreams, sandboxStreams].some((category) =>
    stream.startsWith(toStreamName(category, "")),
  );
  if (!isOfStateless) return createWebhookBody(log, source);
  const event = await log.readLast(stream, revision);
  return event?.revision === revision ? toAccessBody(event) : undefined;
}

/**
 * Creates the public event for an event about the application's access or sandbox.
 *
 * @returns undefined if partners do not receive the event, or the event has no clinic or no environment
 */
export function toAccessBody(
  event: RecordedEvent<CatalogEvent>,
): InstallationBody | AnimalLinkBody | SandboxResetBody | undefined {
  const { environment, clinicId, occurredAt } = event.metadata;
  if (!environment || !clinicId) return undefined;
  const envelope = { id: event.id, apiVersion: "v1", createdAt: occurredAt, environment, clinicId } as const;
  const commonFields = { ...envelope, branchId: null };
  switch (event.type) {
    case "InstallationApproved":
    case "InstallationNarrowed": {
      const { scopes, branchIds, animalAccess } = event.data;
      const type = event.type === "InstallationApproved" ? "installation.approved" : "installation.access_changed";
      return { ...commonFields, type, data: { installation: { scopes, branchIds, animalAccess } } };
    }
    case "InstallationRevoked":
      return { ...commonFields, type: "installation.revoked", data: { installation: null } };
    case "AnimalLinked":
    case "AnimalLinkWithdrawn": {
      const { linkId: id, animalId } = event.data;
      const type = event.type === "AnimalLinked" ? "animal_link.created" : "animal_link.withdrawn";
      // The withdrawal of a code that was not redeemed ends no link.
      return id === null ? undefined : { ...commonFields, type, data: { link: { id, animalId } } };
    }
    case "SandboxReset": {
      const { generation, day } = event.data;
      return { ...commonFields, type: "sandbox.reset", data: { sandbox: { generation, day } } };
    }
    default:
      return undefined;
  }
}
