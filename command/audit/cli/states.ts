import type { z } from "zod";
import type { AuditAction } from "../../../shared/domain/events/audit.ts";
import type { Change } from "../state/changes.ts";
import { type ReplayStep, replayQuerySchema, replayStream, type StreamReadOptions } from "../state/replay.ts";
import {
  compareStates,
  diffQuerySchema,
  getStateAt,
  type StateDiff,
  type StreamState,
  stateQuerySchema,
} from "../state/state-at.ts";
import { type CommandOptions, isVisibleToOperator, readQuery, withAuditedAccess } from "./audited-query.ts";
import { NotFoundError } from "./failure.ts";
import { formatActor } from "./table.ts";
import { type AuditTerminal, escapeControlCharacters, truncateLine } from "./terminal.ts";

/** Prints the state of a stream at a point in the stream's history. */
export function showState(options: CommandOptions, terminal: AuditTerminal): Promise<void> {
  return showResult("state", stateQuerySchema, getStateAt, formatState, options, terminal);
}

/** Prints the differences between the states of a stream at two points in the stream's history. */
export function showDiff(options: CommandOptions, terminal: AuditTerminal): Promise<void> {
  return showResult("diff", diffQuerySchema, compareStates, formatDiff, options, terminal);
}

async function showResult<Query extends { stream: string }, Result>(
  action: AuditAction,
  schema: z.ZodType<Query>,
  runQuery: (query: Query, readOptions: StreamReadOptions) => Promise<Result | undefined>,
  formatResult: (result: Result, columns: number | undefined) => string,
  { actor, json, ...options }: CommandOptions,
  terminal: AuditTerminal,
): Promise<void> {
  const query = readQuery(schema, options);
  await withAuditedAccess(terminal, { actor, action, query: options }, async ({ client, dataKeys }) => {
    const result = await runQuery(query, { client, dataKeys, isVisible: isVisibleToOperator });
    if (!result) throw toNotFoundError(query.stream);
    await terminal.write(json ? `${JSON.stringify(result)}\n` : formatResult(result, terminal.columns));
  });
}

/**
 * Prints each event of a stream with the fields that the event changed. On a terminal, each key press prints the next
 * event.
 */
export async function showReplay(
  { actor, json, all, ...options }: CommandOptions & { all?: boolean },
  terminal: AuditTerminal,
): Promise<void> {
  const { stream } = readQuery(replayQuerySchema, options);
  await withAuditedAccess(terminal, { actor, action: "replay", query: options }, async ({ client, dataKeys }) => {
    const readKey = all || json ? undefined : terminal.readKey;
    let stepCount = 0;
    for await (const step of replayStream(stream, { client, dataKeys, isVisible: isVisibleToOperator })) {
      if (stepCount > 0 && (await readKey?.()) === "end") return;
      stepCount += 1;
      await terminal.write(json ? `${JSON.stringify(step)}\n` : formatStep(step, terminal.columns));
      if (readKey && stepCount === 1) terminal.writeError("(Enter: next event; q: quit)");
    }
    if (stepCount === 0) throw toNotFoundError(stream);
  });
}

function toNotFoundError(stream: string): NotFoundError {
  return new NotFoundError(`stream ${stream} does not exist`);
}

function formatState({ stream, last: lastEvent, state }: StreamState): string {
  const json = JSON.stringify(state, null, 2).split("\n").map(escapeControlCharacters).join("\n");
  return `${stream} ${formatLastEvent(lastEvent)}\n${json}\n`;
}

function formatDiff({ stream, from, to, changes }: StateDiff, columns: number | undefined): string {
  return `${stream}\n  from ${formatLastEvent(from)}\n  to   ${formatLastEvent(to)}\n${formatChanges(changes, columns)}`;
}

function formatStep({ event, changes }: ReplayStep, columns: number | undefined): string {
  const { revision, type, occurredAt, actor, correlationId } = event;
  const headLine = `@ ${revision}  ${occurredAt}  ${type}  by ${formatActor({ actor })}  request ${correlationId}`;
  return `${truncateLine(escapeControlCharacters(headLine), columns)}\n${formatChanges(changes, columns)}`;
}

function formatLastEvent(lastEvent: StreamState["last"]): string {
  if (!lastEvent) return "before the first event";
  const { revision, type, occurredAt, storedAt, position } = lastEvent;
  return `@ ${revision} (${type}, occurred ${occurredAt}, stored ${storedAt}, position ${position})`;
}

function formatChanges(changes: Change[], columns: number | undefined): string {
  if (changes.length === 0) return "    no changes in the state\n";
  return changes
    .map(
      (change) =>
        `${truncateLine(escapeControlCharacters(`    ${change.path}: ${formatChangedValue(change)}`), columns)}\n`,
    )
    .join("");
}

function formatChangedValue(change: Change): string {
  const [textBefore, textAfter] = [JSON.stringify(change.before), JSON.stringify(change.after)];
  if (!("before" in change)) return `+ ${textAfter}`;
  return "after" in change ? `${textBefore} → ${textAfter}` : `- ${textBefore}`;
}
