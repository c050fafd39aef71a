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

/**
 * Derives the id of an assignment that an import or a booking creates. An appointment therefore gets at most one such
 * assignment for each resource.
 */
export function deriveAssignmentId(appointmentId: string, resourceId: string): string {
  return deriveId("assignment", appointmentId, resourceId);
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

/**
 * Derives the id of a replay of one delivery. Concurrent requests derive the same id, so only one of them can start a
 * replay.
 *
 * @param replayPosition log position of the delivery's last replay; null if there was none
 * @param ordinal number of requests since then that ended without replaying the delivery
 */
export function deriveDeliveryReplayId(deliveryId: string, replayPosition: bigint | null, ordinal: number): string {
  return deriveId("delivery replay", deliveryId, String(replayPosition ?? ""), String(ordinal));
}

/**
 * Derives the id of an operator's request, or of the object that the request creates, from its idempotency key. Keys
 * never expire.
 */
export function deriveOperatorRequestId(kind: "request" | "object", operatorId: string, command: string, key: string) {
  return deriveId(`operator ${kind}`, operatorId, command, key);
}

/**
 * Derives the id of an event that another event causes. The id is the same each time, so appending the event again has
 * no effect.
 *
 * @param ordinal distinguishes several events of the same type with the same cause, from 0
 */
export function deriveConsequenceId(causeId: string, type: string, ordinal: number): string {
  return deriveId("consequence", causeId, type, String(ordinal));
}
