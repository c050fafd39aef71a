import { createStyle } from "../../../shared/command-line/style.ts";
import { formatTable } from "../../../shared/command-line/table.ts";
import { escapeControlCharacters, type Terminal } from "../../../shared/command-line/terminal.ts";
import { formatLocalTime } from "../../../shared/domain/time/local-time.ts";
import type { ClinicAccess } from "../access/list-accesses.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import type { ReplayStep } from "../state/replay.ts";

/** Columns of the table of events: title, minimum width in characters, and text. Longer text is printed in full. */
const EVENT_COLUMNS: [title: string, width: number, toText: (event: AuditEvent) => string][] = [
  ["OCCURRED", 24, ({ occurredAt }) => occurredAt ?? "unknown"],
  ["EVENT", 30, ({ type }) => type],
  ["BY", 48, ({ actor }) => formatActor(actor)],
  ["STREAM @ REVISION", 66, formatPlace],
  ["REQUEST", 36, ({ correlationId }) => correlationId ?? "unknown"],
  ["CAUSED BY", 36, formatCause],
  ["STORED", 24, ({ storedAt }) => storedAt],
  ["POSITION", 10, ({ position }) => position],
  ["REASON", 6, getReason],
];

const joinCells = (cells: readonly string[]) =>
  cells
    .map((cell, column) => cell.padEnd(EVENT_COLUMNS[column]?.[1] ?? 0))
    .join("  ")
    .trimEnd();

export const EVENT_HEADER = joinCells(EVENT_COLUMNS.map(([title]) => title));

/**
 * Formats an event of a list. For a file or pipe, the event is one table row. For a terminal, which is narrower, it has
 * two lines, and a third line for its reason. Ids are never truncated, because users copy them into the next command.
 */
export function formatEvent(event: AuditEvent, terminal: Terminal): string {
  if (terminal.columns === undefined)
    return joinCells(EVENT_COLUMNS.map(([, , toText]) => escapeControlCharacters(toText(event))));
  const { bold, dim } = createStyle(terminal);
  const time = (event.occurredAt ?? event.storedAt).replace("T", " ");
  const texts = [event.type, `by ${formatActor(event.actor)}`, formatPlace(event), getReason(event)];
  const [type = "", actor, place = "", reason] = texts.map(escapeControlCharacters);
  return `${time}  ${bold(type)}  ${actor}\n  ${dim(place)}${reason && `\n  reason: ${reason}`}`;
}

function formatActor(actor: AuditEvent["actor"]): string {
  if (!actor) return "unknown";
  return `${actor.type}:${actor.id}${actor.note === undefined ? "" : ` (${actor.note})`}`;
}

function formatCause({ causationId, correlationId }: AuditEvent): string {
  if (causationId === null) return "unknown";
  return causationId === correlationId ? "the request" : causationId;
}

/** Returns the reason in the event's data; an empty string if there is none. */
function getReason({ data }: AuditEvent): string {
  const { reason } = (data ?? {}) as { reason?: unknown };
  return typeof reason === "string" ? reason : "";
}

function formatPlace({ stream, revision }: AuditEvent): string {
  return `${stream} @ ${revision}`;
}

export function formatAccess({ at, actor, auditorName, action, relation, asked, problem }: ClinicAccess): string {
  const name = auditorName === null ? "" : ` ${auditorName}`;
  const query = problem ?? JSON.stringify(asked);
  const cells = [at, action.padEnd(12), relation.padEnd(8), `${formatActor(actor)}${name}`, query];
  return escapeControlCharacters(cells.join("  "));
}

export function formatStep({ event, changes, problem }: ReplayStep, terminal: Terminal): string {
  const { revision, type, occurredAt, actor, correlationId } = event;
  const line = `@ ${revision}  ${occurredAt}  ${type}  by ${formatActor(actor)}  request ${correlationId}`;
  const result = problem === undefined ? { changes } : { problem };
  return `${escapeControlCharacters(line)}\n${formatResult(result, terminal)}`;
}

/** Columns of each list in a result, by the list's name. `--json` prints all members. */
const COLUMNS: Record<string, readonly string[]> = {
  branches: ["name", "city", "id"],
  staff: ["name", "role", "permissions", "branchIds", "userId"],
  resources: ["name", "type", "capacity", "branchId", "id"],
  installations: ["name", "scopes", "animalAccess", "branchIds", "applicationId"],
  readers: ["from", "to", "kind", "name", "access", "id"],
  accesses: ["at", "action", "relation", "actor", "auditorName", "asked", "problem"],
  changes: ["at", "text", "actor", "path", "before", "after"],
};

/** Formats a result for people: each list as a table, and each other member as a line or as JSON. */
export function formatResult(result: object, terminal: Terminal): string {
  const { at, timeZone } = result as { at?: string; timeZone?: string };
  const localTime = at && timeZone && { at: formatLocalTime(timeZone, Date.parse(at)) };
  const lines = Object.entries({ ...result, ...localTime }).flatMap(([name, value]) => {
    if (!Array.isArray(value)) return `${name}: ${formatValue(value, 2)}`.split("\n").map(escapeControlCharacters);
    if (value.length === 0) return `${name}: none`;
    const columns = COLUMNS[name]?.filter((column) => value.some((item) => column in item));
    const toRow = (item: Record<string, unknown>) =>
      Object.fromEntries((columns ?? []).map((column) => [column, formatCell(column, item[column])]));
    const rows = columns ? formatTable(value.map(toRow), terminal) : value.map(escapeControlCharacters);
    return [`${name}:`, ...rows.map((row) => `  ${row.replaceAll("\n", "\n  ").trimEnd()}`)];
  });
  return lines.join("\n");
}

function formatCell(column: string, value: unknown): string {
  if (column === "actor") return formatActor(value as AuditEvent["actor"]);
  if (value === null) return column === "to" ? "now" : "";
  return Array.isArray(value) ? value.map((item) => formatValue(item)).join(", ") : formatValue(value);
}

/** @param indent number of spaces; undefined for one line */
function formatValue(value: unknown, indent?: number): string {
  if (value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, indent);
}
