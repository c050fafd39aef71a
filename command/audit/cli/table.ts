import { createStyle } from "../../../shared/command-line/style.ts";
import { escapeControlCharacters, type Terminal } from "../../../shared/command-line/terminal.ts";
import type { AuditEvent } from "../log/audit-event.ts";

interface Column {
  title: string;
  /** Width of the column in characters. Longer text is printed in full. */
  width: number;
  toText: (event: AuditEvent) => string;
}

/** Columns of the table in a file or pipe. */
const COLUMNS: Column[] = [
  { title: "OCCURRED", width: 24, toText: ({ occurredAt }) => occurredAt ?? "unknown" },
  { title: "EVENT", width: 30, toText: ({ type }) => type },
  { title: "BY", width: 48, toText: formatActor },
  { title: "STREAM @ REVISION", width: 66, toText: formatPlace },
  { title: "REQUEST", width: 36, toText: ({ correlationId }) => correlationId ?? "unknown" },
  { title: "CAUSED BY", width: 36, toText: formatCause },
  { title: "STORED", width: 24, toText: ({ storedAt }) => storedAt },
  { title: "POSITION", width: 10, toText: ({ position }) => position },
  { title: "REASON", width: 6, toText: getReason },
];

/**
 * Creates the function that prints a list of events. A file or pipe gets a table. On a terminal, which is narrower, an
 * event has two lines, and a third one for its reason. Ids are never truncated, because the next command needs them.
 */
export async function createEventPrinter(terminal: Terminal): Promise<(event: AuditEvent) => Promise<void>> {
  if (terminal.columns === undefined) {
    await terminal.writeOutput(formatLine(({ title }) => title));
    return (event) => terminal.writeOutput(formatLine(({ toText }) => escapeControlCharacters(toText(event))));
  }
  const { bold, dim } = createStyle(terminal);
  return (event) => {
    const time = (event.occurredAt ?? event.storedAt).replace("T", " ");
    const actor = escapeControlCharacters(`by ${formatActor(event)}`);
    const place = escapeControlCharacters(formatPlace(event));
    const type = escapeControlCharacters(event.type);
    const reason = escapeControlCharacters(getReason(event));
    const reasonLine = reason === "" ? "" : `\n  reason: ${reason}`;
    return terminal.writeOutput(`${time}  ${bold(type)}  ${actor}\n  ${dim(place)}${reasonLine}`);
  };
}

export function formatActor({ actor }: Pick<AuditEvent, "actor">): string {
  if (!actor) return "unknown";
  return `${actor.type}:${actor.id}${actor.note === undefined ? "" : ` (${actor.note})`}`;
}

function formatCause({ causationId, correlationId }: AuditEvent): string {
  if (causationId === null) return "unknown";
  return causationId === correlationId ? "the request" : causationId;
}

/** Returns the reason in the event's data, such as of a reschedule; the empty string without a reason. */
function getReason({ data }: AuditEvent): string {
  const { reason } = (data ?? {}) as { reason?: unknown };
  return typeof reason === "string" ? reason : "";
}

function formatPlace({ stream, revision }: AuditEvent): string {
  return `${stream} @ ${revision}`;
}

function formatLine(getText: (column: Column) => string): string {
  return COLUMNS.map((column) => getText(column).padEnd(column.width))
    .join("  ")
    .trimEnd();
}
