import { escapeControlCharacters, truncateLine } from "../../../shared/command-line/terminal.ts";
import type { AuditEvent } from "../log/audit-event.ts";

interface Column {
  title: string;
  /** Width of the column on a terminal, in characters. Longer text is truncated. */
  width: number;
  /** Width of the column in a file or pipe, in characters; default: `width`. Longer text is printed in full. */
  fileWidth?: number;
  toText: (event: AuditEvent) => string;
}

/** The most important columns come first, because lines are truncated on the right to fit a narrow terminal. */
const COLUMNS: Column[] = [
  { title: "OCCURRED", width: 24, toText: ({ occurredAt }) => occurredAt ?? "unknown" },
  { title: "EVENT", width: 30, toText: ({ type }) => type },
  { title: "BY", width: 24, fileWidth: 48, toText: formatActor },
  { title: "STREAM @ REVISION", width: 58, fileWidth: 66, toText: ({ stream, revision }) => `${stream} @ ${revision}` },
  { title: "REQUEST", width: 36, toText: ({ correlationId }) => correlationId ?? "unknown" },
  { title: "CAUSED BY", width: 36, toText: formatCause },
  { title: "STORED", width: 24, toText: ({ storedAt }) => storedAt },
  { title: "POSITION", width: 10, toText: ({ position }) => position },
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

export function formatActor({ actor }: Pick<AuditEvent, "actor">): string {
  if (!actor) return "unknown";
  return `${actor.type}:${actor.id}${actor.note === undefined ? "" : ` (${actor.note})`}`;
}

function formatCause({ causationId, correlationId }: AuditEvent): string {
  if (causationId === null) return "unknown";
  return causationId === correlationId ? "the request" : causationId;
}

function formatLine(getText: (column: Column) => string, terminalWidth: number | undefined): string {
  const cells = COLUMNS.map((column) => {
    const text = getText(column);
    if (terminalWidth === undefined) return text.padEnd(column.fileWidth ?? column.width);
    return truncateLine(text, column.width).padEnd(column.width);
  });
  return truncateLine(cells.join("  ").trimEnd(), terminalWidth);
}
