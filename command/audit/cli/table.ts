import type { AuditEvent } from "../log/audit-event.ts";
import { fitted, printable } from "./terminal.ts";

/**
 * Title, width on a terminal, width elsewhere, text. Important columns come first, because a narrow terminal
 * truncates the rest.
 */
const COLUMNS: [title: string, cut: number, whole: number, of: (event: AuditEvent) => string][] = [
  ["OCCURRED", 24, 24, ({ occurredAt }) => occurredAt ?? "unknown"],
  ["EVENT", 30, 30, ({ type }) => type],
  ["BY", 24, 48, ({ actor }) => (actor ? `${actor.type}:${actor.id}` : "unknown")],
  ["STREAM @ REVISION", 58, 66, ({ stream, revision }) => `${stream} @ ${revision}`],
  ["REQUEST", 36, 36, ({ correlationId }) => correlationId ?? "unknown"],
  ["CAUSED BY", 36, 36, causeOf],
  ["STORED", 24, 24, ({ storedAt }) => storedAt],
  ["POSITION", 10, 10, ({ position }) => position],
];

/** @param columns columns width of the terminal; undefined for no truncation */
export function tableHead(columns: number | undefined): string {
  return line(
    COLUMNS.map(([title]) => title),
    columns,
  );
}

/** Formats one event as a table row, aligned and truncated to the terminal. */
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
