import type { AuditEvent } from "../log/audit-event.ts";
import { fitted, printable } from "./terminal.ts";

/** What matters most comes first: a narrow terminal cuts the rest off. */
const COLUMNS: [title: string, width: number, of: (event: AuditEvent) => string][] = [
  ["HAPPENED", 24, ({ occurredAt }) => occurredAt ?? "unknown"],
  ["EVENT", 28, ({ type }) => type],
  ["BY", 24, ({ actor }) => (actor ? `${actor.type}:${actor.id}` : "unknown")],
  ["STREAM @ REVISION", 58, ({ stream, revision }) => `${stream} @ ${revision}`],
  ["REQUEST", 36, ({ correlationId }) => correlationId ?? "unknown"],
  ["CAUSED BY", 36, causeOf],
  ["STORED", 24, ({ storedAt }) => storedAt],
  ["POSITION", 10, ({ position }) => position],
];

/** The head of the table, cut to the terminal. */
export function tableHead(columns: number | undefined): string {
  return line(
    COLUMNS.map(([title, width]) => title.padEnd(width)),
    columns,
  );
}

/** One event in the table, aligned and cut to the terminal. */
export function tableRow(event: AuditEvent, columns: number | undefined): string {
  return line(
    COLUMNS.map(([, width, of]) => fitted(printable(of(event)), columns && width).padEnd(width)),
    columns,
  );
}

function causeOf({ causationId, correlationId }: AuditEvent): string {
  if (causationId === null) return "unknown";
  return causationId === correlationId ? "the request" : causationId;
}

function line(cells: string[], columns: number | undefined): string {
  return fitted(cells.join("  ").trimEnd(), columns);
}
