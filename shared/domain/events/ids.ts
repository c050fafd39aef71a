import { v5 as uuidv5 } from "uuid";
import type { Environment } from "./fields.ts";

/**
 * Ids derived from their content (RFC 9562, version 5), so that a repeated or concurrent command uses the same
 * stream. Parts are joined by a character that no part can contain.
 */
const NAMESPACE = "8b0f4f5e-3f0c-4f9b-9a53-3f1f7c1b2d10";

function derive(kind: string, ...parts: string[]): string {
  return uuidv5([kind, ...parts].join("\n"), NAMESPACE);
}

/** Derives the id of an installation: an application has one at each clinic. */
export function installationId(applicationId: string, clinicId: string): string {
  return derive("installation", applicationId, clinicId);
}

/**
 * Derives the id of the appointment requested with an idempotency key. Keys never expire; a sandbox reset starts a
 * new key space.
 */
export function partnerAppointmentId(key: {
  environment: Environment;
  sandboxGeneration: number;
  applicationId: string;
  clinicId: string;
  idempotencyKey: string;
}): string {
  return derive(
    "appointment",
    key.environment,
    String(key.sandboxGeneration),
    key.applicationId,
    key.clinicId,
    key.idempotencyKey,
  );
}

/** Derives the id of an application's sandbox clinic, which resets do not change. */
export function sandboxClinicId(applicationId: string): string {
  return derive("sandbox", applicationId);
}

/** Derives the id of an object in a sandbox from its names; it is the same after every reset. */
export function sandboxEntityId(applicationId: string, ...names: string[]): string {
  return derive("sandbox entity", applicationId, ...names);
}

/** Derives the id of an imported assignment: an appointment has at most one for each resource. */
export function importedAssignmentId(appointmentId: string, resourceId: string): string {
  return derive("imported assignment", appointmentId, resourceId);
}

/** Derives the id of a delivery: an event has one for each endpoint, independent of the number of attempts. */
export function webhookDeliveryId(eventId: string, endpointId: string): string {
  return derive("delivery", eventId, endpointId);
}

/** Derives the id of the n-th event of a type that a cause leads to, so that recording it again has no effect. */
export function consequenceId(causeId: string, type: string, ordinal: number): string {
  return derive("consequence", causeId, type, String(ordinal));
}
