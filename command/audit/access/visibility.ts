import type { AuditEvent } from "../log/audit-event.ts";

/** Whether an event may be seen. */
export type IsVisible = (event: AuditEvent) => boolean;

/**
 * What somebody may see who is bounded to clinics: an event is shown where every clinic that it names as its own is one
 * of them. What belongs to no clinic (applications, auditors, who looked at what) is for those who may see everything.
 *
 * @param clinicIds null: everything
 */
export function visibleTo(clinicIds: readonly string[] | null): IsVisible {
  if (clinicIds === null) return () => true;
  const allowed = new Set(clinicIds);
  return (event) => {
    const clinics = clinicsOf(event);
    return clinics.length > 0 && clinics.every((clinicId) => allowed.has(clinicId));
  };
}

/** The clinics that an event says it belongs to: by its metadata and by its data. */
export function clinicsOf({ clinicId, data }: AuditEvent): string[] {
  const named = typeof data === "object" && data !== null && "clinicId" in data ? data.clinicId : null;
  return [clinicId, named].filter((id) => typeof id === "string").map((id) => id.toLowerCase());
}
