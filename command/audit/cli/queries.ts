import type { z } from "zod";
import { escapeControlCharacters, type Terminal, truncateLine } from "../../../shared/command-line/terminal.ts";
import { accessesQuery, type ClinicAccess } from "../access/list-accesses.ts";
import { type AuditQuery, OPERATOR_SCOPE } from "../queries/audit-query.ts";
import { eventsQuery } from "../queries/list-events.ts";
import { latestQuery } from "../queries/list-latest.ts";
import type { Change } from "../state/changes.ts";
import { type ReplayStep, replayQuery } from "../state/replay.ts";
import { diffQuery, type StateDiff, type StreamState, stateQuery } from "../state/state-at.ts";
import { type CommandOptions, readQuery, withAuditedAccess } from "./audited-query.ts";
import { createProgressReporter } from "./scan-progress.ts";
import { formatActor, formatTableHead, formatTableRow } from "./table.ts";

/** Width of the terminal in characters; undefined if the output is not a terminal. */
type Columns = number | undefined;

export async function showEvents(options: CommandOptions, terminal: Terminal): Promise<void> {
  await runQuery(eventsQuery, options, terminal, async (events) => {
    if (!options.json) await terminal.writeOutput(formatTableHead(terminal.columns));
    let count = 0;
    for await (const event of events) {
      count += 1;
      await terminal.writeOutput(options.json ? JSON.stringify(event) : formatTableRow(event, terminal.columns));
    }
    if (!options.json) await terminal.writeError(`${count} ${count === 1 ? "event" : "events"}`);
  });
}

export async function showLatestEvents(options: CommandOptions, terminal: Terminal): Promise<void> {
  await runQuery(latestQuery, options, terminal, async ({ events, next }) => {
    if (!options.json) await terminal.writeOutput(formatTableHead(terminal.columns));
    for (const event of events) {
      await terminal.writeOutput(options.json ? JSON.stringify(event) : formatTableRow(event, terminal.columns));
    }
    if (next !== null) await terminal.writeError(`For earlier events, add --before ${next}`);
  });
}

export async function showAccesses(options: CommandOptions, terminal: Terminal): Promise<void> {
  await runQuery(accessesQuery, options, terminal, async (accesses) => {
    let count = 0;
    for await (const access of accesses) {
      count += 1;
      await terminal.writeOutput(options.json ? JSON.stringify(access) : formatAccess(access, terminal.columns));
    }
    if (!options.json) await terminal.writeError(`${count} ${count === 1 ? "access" : "accesses"}`);
  });
}

export async function showState(options: CommandOptions, terminal: Terminal): Promise<void> {
  await runQuery(stateQuery, options, terminal, (state) =>
    terminal.writeOutput(options.json ? JSON.stringify(state) : formatState(state)),
  );
}

export async function showDiff(options: CommandOptions, terminal: Terminal): Promise<void> {
  await runQuery(diffQuery, options, terminal, (diff) =>
    terminal.writeOutput(options.json ? JSON.stringify(diff) : formatDiff(diff, terminal.columns)),
  );
}

/**
 * Prints each event of a stream with the fields that the event changed. On a terminal, each key press prints the next
 * event.
 */
export async function showReplay(
  { all, ...options }: CommandOptions & { all: boolean },
  terminal: Terminal,
): Promise<void> {
  await runQuery(replayQuery, options, terminal, async (steps) => {
    const readKey = all || options.json ? undefined : terminal.readKey;
    let stepCount = 0;
    for await (const step of steps) {
      if (stepCount > 0 && (await readKey?.()) === "end") return;
      stepCount += 1;
      await terminal.writeOutput(options.json ? JSON.stringify(step) : formatStep(step, terminal.columns));
      if (readKey && stepCount === 1) await terminal.writeError("(Enter: next event; q: quit)");
    }
  });
}

async function runQuery<Schema extends z.ZodType, Result>(
  { action, schema, run, isScan }: AuditQuery<Schema, Result>,
  { actor, json: _json, ...options }: CommandOptions,
  terminal: Terminal,
  print: (result: Result) => Promise<void>,
): Promise<void> {
  const query = readQuery(schema, options);
  await withAuditedAccess(terminal, { actor, action, query: options }, async ({ client, dataKeys }) => {
    const onProgress = isScan ? createProgressReporter(terminal) : undefined;
    const { signal } = new AbortController();
    await print(await run(query, { client, dataKeys, ...OPERATOR_SCOPE, signal, onProgress }));
  });
}

function formatState({ stream, last: lastEvent, state }: StreamState): string {
  const json = JSON.stringify(state, null, 2).split("\n").map(escapeControlCharacters).join("\n");
  return `${stream} ${formatLastEvent(lastEvent)}\n${json}`;
}

function formatDiff({ stream, from, to, changes }: StateDiff, columns: Columns): string {
  return `${stream}\n  from ${formatLastEvent(from)}\n  to   ${formatLastEvent(to)}\n${formatChanges(changes, columns)}`;
}

function formatStep({ event, changes }: ReplayStep, columns: Columns): string {
  const { revision, type, occurredAt, actor, correlationId } = event;
  const headLine = `@ ${revision}  ${occurredAt}  ${type}  by ${formatActor({ actor })}  request ${correlationId}`;
  return `${truncateLine(escapeControlCharacters(headLine), columns)}\n${formatChanges(changes, columns)}`;
}

function formatLastEvent(lastEvent: StreamState["last"]): string {
  if (!lastEvent) return "before the first event";
  const { revision, type, occurredAt, storedAt, position } = lastEvent;
  return `@ ${revision} (${type}, occurred ${occurredAt}, stored ${storedAt}, position ${position})`;
}

function formatChanges(changes: Change[], columns: Columns): string {
  if (changes.length === 0) return "    no changes in the state";
  return changes
    .map((change) =>
      truncateLine(escapeControlCharacters(`    ${change.path}: ${formatChangedValue(change)}`), columns),
    )
    .join("\n");
}

function formatChangedValue(change: Change): string {
  const [textBefore, textAfter] = [JSON.stringify(change.before), JSON.stringify(change.after)];
  if (!("before" in change)) return `+ ${textAfter}`;
  return "after" in change ? `${textBefore} → ${textAfter}` : `- ${textBefore}`;
}

function formatAccess({ at, actor, auditorName, action, relation, asked }: ClinicAccess, columns: Columns): string {
  const name = auditorName === null ? "" : ` ${auditorName}`;
  const cells = [at, action.padEnd(12), relation.padEnd(8), `${formatActor({ actor })}${name}`, JSON.stringify(asked)];
  return truncateLine(escapeControlCharacters(cells.join("  ")), columns);
}
