import { v5 as uuidv5 } from "uuid";
import type { Environment } from "./fields.ts";

/**
 * Ids that follow from what they name (RFC 9562, version 5), so that whoever does a thing twice, or twice at once,
 * names the same stream. Parts are joined by a character that none of them can hold.
 */
const NAMESPACE = "8b0f4f5e-3f0c-4f9b-9a53-3f1f7c1b2d10";

function derive(kind: string, ...parts: string[]): string {
  return uuidv5([kind, ...parts].join("\n"), NAMESPACE);
}

/** An application has one installation at a clinic. */
export function installationId(applicationId: string, clinicId: string): string {
  return derive("installation", applicationId, clinicId);
}

/** The appointment that an idempotency key stands for. Keys never expire; a sandbox reset starts a new key space. */
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

/** An application's sandbox is a clinic of its own, the same over all resets. */
export function sandboxClinicId(applicationId: string): string {
  return derive("sandbox", applicationId);
}

/** Something in an application's sandbox, by what it is: the same at every reset. */
export function sandboxEntityId(applicationId: string, ...names: string[]): string {
  return derive("sandbox entity", applicationId, ...names);
}

/** An appointment is imported with at most one assignment of each resource. */
export function importedAssignmentId(appointmentId: string, resourceId: string): string {
  return derive("imported assignment", appointmentId, resourceId);
}

/** An event is delivered to an endpoint by one delivery, however often it is tried. */
export function webhookDeliveryId(eventId: string, endpointId: string): string {
  return derive("delivery", eventId, endpointId);
}

/** The id of the n-th event that follows from a cause, so that recording it again is harmless. */
export function consequenceId(causeId: string, type: string, ordinal: number): string {
  return derive("consequence", causeId, type, String(ordinal));
}
