import type { AuditEvent } from "../log/audit-event.ts";

/**
 * Returns true if a reader may see all clinics that an event names. Events without a clinic, such as those of
 * applications and auditors, are visible only to a reader who may see all events.
 *
 * @param clinicIds ids of the permitted clinics; null if the reader may see all events
 */
export function isVisible(event: AuditEvent, clinicIds: readonly string[] | null): boolean {
  if (clinicIds === null) return true;
  const eventClinicIds = getClinicIds(event);
  return eventClinicIds.length > 0 && eventClinicIds.every((id) => clinicIds.includes(id));
}

/** Returns the ids of the clinics that an event names in its metadata and its data. */
export function getClinicIds({ clinicId, data }: AuditEvent): string[] {
  const namedClinicId = typeof data === "object" && data !== null && "clinicId" in data ? data.clinicId : null;
  return [clinicId, namedClinicId].filter((id) => typeof id === "string").map((id) => id.toLowerCase());
}
