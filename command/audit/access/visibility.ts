import type { AuditEvent } from "../log/audit-event.ts";

/** Returns whether an auditor may see an event. */
export type IsVisible = (event: AuditEvent) => boolean;

/**
 * Creates the access limit of an auditor. An event is visible if it names at least one clinic and all clinics that it
 * names are permitted. Events of no clinic (applications, auditors, accesses) are visible only without a limit.
 *
 * @param clinicIds the permitted clinics; null for no limit
 */
export function visibleTo(clinicIds: readonly string[] | null): IsVisible {
  if (clinicIds === null) return () => true;
  const allowed = new Set(clinicIds);
  return (event) => {
    const clinics = clinicsOf(event);
    return clinics.length > 0 && clinics.every((clinicId) => allowed.has(clinicId));
  };
}

/** Returns the clinics that an event names in its metadata and data. */
export function clinicsOf({ clinicId, data }: AuditEvent): string[] {
  const named = typeof data === "object" && data !== null && "clinicId" in data ? data.clinicId : null;
  return [clinicId, named].filter((id) => typeof id === "string").map((id) => id.toLowerCase());
}
