import type { AuditEvent } from "../log/audit-event.ts";
import { escapeControlCharacters, truncateLine } from "./terminal.ts";

interface Column {
  title: string;
  /** Width on a terminal, in characters. Longer text is truncated. */
  width: number;
  /** Width in a file or pipe, in characters. Longer text is printed in full. */
  fileWidth: number;
  toText: (event: AuditEvent) => string;
}

function column(title: string, width: number, toText: Column["toText"], fileWidth = width): Column {
  return { title, width, fileWidth, toText };
}

/** The most important columns come first, because a narrow terminal truncates the line at its right end. */
const COLUMNS: Column[] = [
  column("OCCURRED", 24, ({ occurredAt }) => occurredAt ?? "unknown"),
  column("EVENT", 30, ({ type }) => type),
  column("BY", 24, ({ actor }) => (actor ? `${actor.type}:${actor.id}` : "unknown"), 48),
  column("STREAM @ REVISION", 58, ({ stream, revision }) => `${stream} @ ${revision}`, 66),
  column("REQUEST", 36, ({ correlationId }) => correlationId ?? "unknown"),
  column("CAUSED BY", 36, formatCause),
  column("STORED", 24, ({ storedAt }) => storedAt),
  column("POSITION", 10, ({ position }) => position),
];

/**
 * Formats the first line of the table, with the titles of the columns.
 *
 * @param terminalWidth in characters; undefined if the output is not a terminal
 */
export function formatTableHead(terminalWidth: number | undefined): string {
  return formatLine(({ title }) => title, terminalWidth);
}

/** Formats an event as a line of the table. The parameters are those of {@link formatTableHead}. */
export function formatTableRow(event: AuditEvent, terminalWidth: number | undefined): string {
  return formatLine(({ toText }) => escapeControlCharacters(toText(event)), terminalWidth);
}

function formatCause({ causationId, correlationId }: AuditEvent): string {
  if (causationId === null) return "unknown";
  return causationId === correlationId ? "the request" : causationId;
}

function formatLine(getText: (column: Column) => string, terminalWidth: number | undefined): string {
  const cells = COLUMNS.map((column) => {
    const text = getText(column);
    if (terminalWidth === undefined) return text.padEnd(column.fileWidth);
    return truncateLine(text, column.width).padEnd(column.width);
  });
  return truncateLine(cells.join("  ").trimEnd(), terminalWidth);
}
