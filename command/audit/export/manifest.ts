export const EXPORT_FORMAT = "clinic-service-audit-export/1";

type EventReference = { position: string; id: string };

/** The signed content of an export's last line. docs/audit-format.md describes the members. */
export interface Manifest {
  format: typeof EXPORT_FORMAT;
  clinicId: string;
  stored: { from: string | null; to: string };
  count: number;
  first: EventReference | null;
  last: EventReference | null;
  root: string;
  blocks: { lines: number; roots: string[] };
  made: { at: string; by: { type: string; id: string }; accessId: string; logEnd: string };
}
