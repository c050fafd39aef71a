import type { AuditEvent } from "../log/audit-event.ts";
import { fitted, printable } from "./terminal.ts";

/** Title, width on a terminal and elsewhere, text. What matters most comes first: a narrow terminal cuts the rest off. */
const COLUMNS: [title: string, cut: number, whole: number, of: (event: AuditEvent) => string][] = [
  ["HAPPENED", 24, 24, ({ occurredAt }) => occurredAt ?? "unknown"],
  ["EVENT", 30, 30, ({ type }) => type],
  ["BY", 24, 48, ({ actor }) => (actor ? `${actor.type}:${actor.id}` : "unknown")],
  ["STREAM @ REVISION", 58, 66, ({ stream, revision }) => `${stream} @ ${revision}`],
  ["REQUEST", 36, 36, ({ correlationId }) => correlationId ?? "unknown"],
  ["CAUSED BY", 36, 36, causeOf],
  ["STORED", 24, 24, ({ storedAt }) => storedAt],
  ["POSITION", 10, 10, ({ position }) => position],
];

/** @param columns of the terminal; undefined where it is none: then nothing is cut off */
export function tableHead(columns: number | undefined): string {
  return line(
    COLUMNS.map(([title]) => title),
    columns,
  );
}

/** One event in the table, aligned and cut to the terminal. */
export function tableRow(event: AuditEvent, columns: number | undefined): string {
  return line(
    COLUMNS.map(([, , , of]) => printable(of(event))),
    columns,
  );
}

function causeOf({ causationId, correlationId }: AuditEvent): string {
  if (causationId === null) return "unknown";
  return causationId === correlationId ? "the request" : causationId;
}

function line(texts: string[], columns: number | undefined): string {
  const cells = COLUMNS.map(([, cut, whole], index) => {
    const text = texts[index] ?? "";
    return columns === undefined ? text.padEnd(whole) : fitted(text, cut).padEnd(cut);
  });
  return fitted(cells.join("  ").trimEnd(), columns);
}
