import type { Change } from "../state/changes.ts";
import { type ReplayStep, replay, replayQuery } from "../state/replay.ts";
import { type Diff, diff, diffQuery, type StateAt, stateAt, stateQuery } from "../state/state-at.ts";
import { everythingIsVisible, type OutputOptions, readQuery, withAuditedAccess } from "./audited-query.ts";
import { NotFoundError } from "./failure.ts";
import { type AuditTerminal, fitted, printable } from "./terminal.ts";

type Given = OutputOptions & Record<string, unknown>;

/** Prints the state of a stream at a point in its history. */
export async function showState({ actor, json, ...given }: Given, terminal: AuditTerminal): Promise<void> {
  const query = readQuery(stateQuery, given);
  await withAuditedAccess(terminal, { actor, action: "state", asked: given }, async ({ client }) => {
    const found = await stateAt(query, { client, isVisible: everythingIsVisible });
    if (!found) throw new NotFoundError(`stream ${query.stream} does not exist`);
    await terminal.write(json ? `${JSON.stringify(found)}\n` : stateText(found));
  });
}

/** Prints the differences between two points in the history of a stream. */
export async function showDiff({ actor, json, ...given }: Given, terminal: AuditTerminal): Promise<void> {
  const query = readQuery(diffQuery, given);
  await withAuditedAccess(terminal, { actor, action: "diff", asked: given }, async ({ client }) => {
    const found = await diff(query, { client, isVisible: everythingIsVisible });
    if (!found) throw new NotFoundError(`stream ${query.stream} does not exist`);
    await terminal.write(json ? `${JSON.stringify(found)}\n` : diffText(found, terminal.columns));
  });
}

/** Steps through a stream: one event per key press on a terminal, else all events at once. */
export async function showReplay(
  { actor, json, all, ...given }: Given & { all?: boolean },
  terminal: AuditTerminal,
): Promise<void> {
  const { stream } = readQuery(replayQuery, given);
  await withAuditedAccess(terminal, { actor, action: "replay", asked: given }, async ({ client }) => {
    const key = all || json ? undefined : terminal.key;
    let count = 0;
    for await (const step of replay(stream, { client, isVisible: everythingIsVisible })) {
      if (count > 0 && (await key?.()) === "end") return;
      count += 1;
      await terminal.write(json ? `${JSON.stringify(step)}\n` : stepText(step, terminal.columns));
      if (key && count === 1) terminal.err("(Enter: next event; q: quit)");
    }
    if (count === 0) throw new NotFoundError(`stream ${stream} does not exist`);
  });
}

function stateText({ stream, last, state }: StateAt): string {
  const json = JSON.stringify(state, null, 2).split("\n").map(printable).join("\n");
  return `${stream} ${lastEventText(last)}\n${json}\n`;
}

function diffText({ stream, from, to, changes }: Diff, columns: number | undefined): string {
  return `${stream}\n  from ${lastEventText(from)}\n  to   ${lastEventText(to)}\n${changesText(changes, columns)}`;
}

function stepText({ event, changes }: ReplayStep, columns: number | undefined): string {
  const { revision, type, occurredAt, actor, correlationId } = event;
  const head = `@ ${revision}  ${occurredAt}  ${type}  by ${actor?.type}:${actor?.id}  request ${correlationId}`;
  return `${fitted(printable(head), columns)}\n${changesText(changes, columns)}`;
}

function lastEventText(last: StateAt["last"]): string {
  if (!last) return "before the first event";
  const { revision, type, occurredAt, storedAt, position } = last;
  return `@ ${revision} (${type}, occurred ${occurredAt}, stored ${storedAt}, position ${position})`;
}

function changesText(changes: Change[], columns: number | undefined): string {
  if (changes.length === 0) return "    no changes in the state\n";
  return changes
    .map((change) => `${fitted(printable(`    ${change.path}: ${sidesText(change)}`), columns)}\n`)
    .join("");
}

function sidesText(change: Change): string {
  const [before, after] = [JSON.stringify(change.before), JSON.stringify(change.after)];
  if (!("before" in change)) return `+ ${after}`;
  return "after" in change ? `${before} → ${after}` : `- ${before}`;
}
