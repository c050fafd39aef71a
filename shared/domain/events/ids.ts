import { parse as parseUuid, v5 as uuidv5 } from "uuid";
import type { Environment } from "./fields.ts";

/**
 * Namespace of derived ids (UUID version 5, RFC 9562). The same values always give the same id. Repeated and concurrent
 * commands therefore use the same stream.
 */
const NAMESPACE = parseUuid("8b0f4f5e-3f0c-4f9b-9a53-3f1f7c1b2d10");

const textEncoder = new TextEncoder();

function deriveId(kind: string, ...nameParts: string[]): string {
  // Bytes avoid the slow encoding of strings in the library.
  return uuidv5(textEncoder.encode([kind, ...nameParts].join("\n")), NAMESPACE);
}

/** Derives the id of an installation. An application has one installation at each clinic. */
export function deriveInstallationId(applicationId: string, clinicId: string): string {
  return deriveId("installation", applicationId, clinicId);
}

/**
 * Derives the id of the appointment that a partner requested with an idempotency key. Keys never expire. After a
 * sandbox reset, the same key gives a new id.
 */
export function derivePartnerAppointmentId(key: {
  environment: Environment;
  sandboxGeneration: number;
  applicationId: string;
  clinicId: string;
  idempotencyKey: string;
}): string {
  const { environment, sandboxGeneration, applicationId, clinicId, idempotencyKey } = key;
  return deriveId("appointment", environment, String(sandboxGeneration), applicationId, clinicId, idempotencyKey);
}

/**
 * Derives the id of the link that a link code creates.
 *
 * @param codeDigest HMAC of the code
 */
export function deriveAnimalLinkId(codeDigest: string): string {
  return deriveId("animal link", codeDigest);
}

/** Derives the id of an application's sandbox clinic. Resets do not change this id. */
export function deriveSandboxClinicId(applicationId: string): string {
  return deriveId("sandbox", applicationId);
}

/** Derives the id of an object in a sandbox from a list of names. The id is the same after every reset. */
export function deriveSandboxEntityId(applicationId: string, ...names: string[]): string {
  return deriveId("sandbox entity", applicationId, ...names);
}

/** Derives the id of an imported assignment. An imported appointment has at most one assignment for each resource. */
export function deriveImportedAssignmentId(appointmentId: string, resourceId: string): string {
  return deriveId("imported assignment", appointmentId, resourceId);
}

/**
 * Derives the id of a webhook delivery. All attempts to deliver one event to one endpoint belong to the same
 * delivery.
 */
export function deriveWebhookDeliveryId(eventId: string, endpointId: string): string {
  return deriveId("delivery", eventId, endpointId);
}

/** Derives the id of the replay that a partner requested with an idempotency key. Keys never expire. */
export function deriveWebhookReplayId(key: {
  environment: Environment;
  applicationId: string;
  clinicId: string | null;
  endpointId: string;
  idempotencyKey: string;
}): string {
  const { environment, applicationId, clinicId, endpointId, idempotencyKey } = key;
  return deriveId("replay", environment, applicationId, clinicId ?? applicationId, endpointId, idempotencyKey);
}

/** Derives the id of the event that requests the replay of one delivery, as a part of a replay of several. */
export function deriveReplayRequestId(replayId: string, deliveryId: string): string {
  return deriveId("replay request", replayId, deliveryId);
}

/**
 * Derives the id of an event that another event causes. The id is the same each time, so appending the event again has
 * no effect.
 *
 * @param ordinal number of the event among the events of this type with the same cause
 */
export function deriveConsequenceId(causeId: string, type: string, ordinal: number): string {
  return deriveId("consequence", causeId, type, String(ordinal));
}
