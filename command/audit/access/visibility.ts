import type { AuditEvent } from "../log/audit-event.ts";

export type IsVisible = (event: AuditEvent) => boolean;

/**
 * Creates the filter that limits a reader to events of certain clinics. An event that names clinics is visible if all
 * of them are permitted. Events that name no clinic, such as those of applications and auditors, are visible only to a
 * reader who may see all events.
 *
 * @param clinicIds ids of the permitted clinics; null if the reader may see all events
 */
export function createVisibilityFilter(clinicIds: readonly string[] | null): IsVisible {
  if (clinicIds === null) return () => true;
  const permittedClinicIds = new Set(clinicIds);
  return (event) => {
    const eventClinicIds = getClinicIds(event);
    return eventClinicIds.length > 0 && eventClinicIds.every((clinicId) => permittedClinicIds.has(clinicId));
  };
}

/** Returns the ids of the clinics that an event names in its metadata and its data. */
export function getClinicIds({ clinicId, data }: AuditEvent): string[] {
  const namedClinicId = typeof data === "object" && data !== null && "clinicId" in data ? data.clinicId : null;
  return [clinicId, namedClinicId].filter((id) => typeof id === "string").map((id) => id.toLowerCase());
}
