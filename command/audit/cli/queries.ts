import type { z } from "zod";
import { suggestNext } from "../../../shared/command-line/format-command-line.ts";
import { escapeControlCharacters, type Terminal } from "../../../shared/command-line/terminal.ts";
import { accessesQuery, type ClinicAccess } from "../access/list-accesses.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import { type AuditQuery, OPERATOR_SCOPE } from "../queries/audit-query.ts";
import { eventsQuery } from "../queries/list-events.ts";
import { latestQuery } from "../queries/list-latest.ts";
import type { Change } from "../state/changes.ts";
import { type ReplayStep, replayQuery } from "../state/replay.ts";
import { diffQuery, type StateDiff, type StreamState, stateQuery } from "../state/state-at.ts";
import { type CommandOptions, readQuery, withAuditedAccess } from "./audited-query.ts";
import { createProgressReporter } from "./scan-progress.ts";
import { createEventPrinter, formatActor } from "./table.ts";

/** Creates the function that prints an event: as JSON, or in a list for people. */
async function createPrinter(
  { json }: CommandOptions,
  terminal: Terminal,
): Promise<(event: AuditEvent) => Promise<void>> {
  return json ? (event) => terminal.writeOutput(JSON.stringify(event)) : createEventPrinter(terminal);
}

export async function showEvents(options: CommandOptions, terminal: Terminal): Promise<void> {
  await runQuery(eventsQuery, options, terminal, async (events) => {
    const print = await createPrinter(options, terminal);
    let count = 0;
    let lastStream: string | undefined;
    for await (const event of events) {
      count += 1;
      lastStream = event.stream;
      await print(event);
    }
    if (options.json) return;
    await terminal.writeError(`${count} ${count === 1 ? "event" : "events"}`);
    if (lastStream !== undefined) await suggestNext(terminal, options.json, `audit replay ${lastStream}`);
  });
}

export async function showLatestEvents(options: CommandOptions, terminal: Terminal): Promise<void> {
  await runQuery(latestQuery, options, terminal, async ({ events, next }) => {
    const print = await createPrinter(options, terminal);
    for (const event of events) await print(event);
    if (next !== null) await terminal.writeError(`For earlier events, add --before ${next}`);
    const [latestEvent] = events;
    if (latestEvent) await suggestNext(terminal, options.json, `audit replay ${latestEvent.stream}`);
  });
}

export async function showAccesses(options: CommandOptions, terminal: Terminal): Promise<void> {
  await runQuery(accessesQuery, options, terminal, async (accesses) => {
    let count = 0;
    let lastAuditorId: string | undefined;
    for await (const access of accesses) {
      count += 1;
      if (access.actor?.type === "auditor") lastAuditorId = access.actor.id;
      await terminal.writeOutput(options.json ? JSON.stringify(access) : formatAccess(access));
    }
    if (!options.json) await terminal.writeError(`${count} ${count === 1 ? "access" : "accesses"}`);
    if (lastAuditorId !== undefined)
      await suggestNext(terminal, options.json, `audit accesses --auditor ${lastAuditorId}`);
  });
}

export async function showState(options: CommandOptions, terminal: Terminal): Promise<void> {
  await runQuery(stateQuery, options, terminal, async (state) => {
    await terminal.writeOutput(options.json ? JSON.stringify(state) : formatState(state));
    await suggestNext(terminal, options.json, `audit diff ${state.stream}`);
  });
}

export async function showDiff(options: CommandOptions, terminal: Terminal): Promise<void> {
  await runQuery(diffQuery, options, terminal, async (diff) => {
    await terminal.writeOutput(options.json ? JSON.stringify(diff) : formatDiff(diff));
    await suggestNext(terminal, options.json, `audit replay ${diff.stream}`);
  });
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
      await terminal.writeOutput(options.json ? JSON.stringify(step) : formatStep(step));
      if (readKey && stepCount === 1) await terminal.writeError("(Enter: next event; q: quit)");
    }
    await suggestNext(terminal, options.json, `audit as-of ${options.stream}`);
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

function formatDiff({ stream, from, to, changes }: StateDiff): string {
  return `${stream}\n  from ${formatLastEvent(from)}\n  to   ${formatLastEvent(to)}\n${formatChanges(changes)}`;
}

function formatStep({ event, changes, problem }: ReplayStep): string {
  const { revision, type, occurredAt, actor, correlationId } = event;
  const headLine = `@ ${revision}  ${occurredAt}  ${type}  by ${formatActor({ actor })}  request ${correlationId}`;
  const changeLines = problem === undefined ? formatChanges(changes) : escapeControlCharacters(`    ${problem}`);
  return `${escapeControlCharacters(headLine)}\n${changeLines}`;
}

function formatLastEvent(lastEvent: StreamState["last"]): string {
  if (!lastEvent) return "before the first event";
  const { revision, type, occurredAt, storedAt, position } = lastEvent;
  return `@ ${revision} (${type}, occurred ${occurredAt}, stored ${storedAt}, position ${position})`;
}

function formatChanges(changes: Change[]): string {
  if (changes.length === 0) return "    no changes in the state";
  return changes
    .map((change) => escapeControlCharacters(`    ${change.path}: ${formatChangedValue(change)}`))
    .join("\n");
}

function formatChangedValue(change: Change): string {
  const [textBefore, textAfter] = [JSON.stringify(change.before), JSON.stringify(change.after)];
  if (!("before" in change)) return `+ ${textAfter}`;
  return "after" in change ? `${textBefore} → ${textAfter}` : `- ${textBefore}`;
}

function formatAccess({ at, actor, auditorName, action, relation, asked }: ClinicAccess): string {
  const name = auditorName === null ? "" : ` ${auditorName}`;
  const cells = [at, action.padEnd(12), relation.padEnd(8), `${formatActor({ actor })}${name}`, JSON.stringify(asked)];
  return escapeControlCharacters(cells.join("  "));
}
