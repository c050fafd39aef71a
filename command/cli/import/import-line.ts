import { v5 as uuidv5 } from "uuid";
import { commands } from "../commands/commands.ts";
import type { Call, Command } from "../framework/command.ts";
import { problemsLine } from "../framework/failure.ts";
import { type FieldProblem, jsonPath } from "./import-failure.ts";

const NAMESPACE = "d8a1f6f2-5b0d-4b6e-9c3a-2f7e1c9b4a60";

/** A line that was read: a command, or the problems of the line. */
export type ReadLine = { command: Command; call: Call; key: string } | UnusableLine;

/** A line that is not a command, or that has invalid options. */
export interface UnusableLine {
  reason: string;
  problems: FieldProblem[];
  /** The id of what the line would change; undefined if the line does not say. */
  changes: string | undefined;
}

const importable = new Map(
  commands
    .filter((command) => command.importable)
    .map((command) => [`${command.noun} ${command.verb}`, command]),
);

/** Maximum number of problems that are listed for one line. */
const MAX_PROBLEMS = 20;

/** Reads a line of an import: `{"command": "customer register", "id": …, …}`. Every id is required. */
export function readLine(text: string): ReadLine {
  const value = parse(text);
  if (value === undefined) return unreadable("is not valid JSON");
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return unreadable("is not a JSON object");
  const { command: name, ...given } = value as Record<string, unknown>;
  if (name === undefined) return wrongCommand("is missing");
  const command = typeof name === "string" ? importable.get(name) : undefined;
  if (!command) return wrongCommand(`${shown(name)} cannot be imported; see \`import --help\``);
  const checked = command.check(given, false);
  if ("call" in checked) {
    const key = JSON.stringify([name, ...Object.entries(given).sort(byName)]);
    return { command, call: checked.call, key };
  }
  const listed = checked.problems.slice(0, MAX_PROBLEMS);
  const left = checked.problems.length - listed.length;
  const problems = listed.map(({ path, message }) => ({ field: jsonPath(path), reason: message }));
  if (left > 0) problems.push({ field: jsonPath([]), reason: `has ${left} more problems` });
  const reason = problemsLine(listed, (option) => option);
  const { changes } = checked;
  return { reason: left > 0 ? `${reason}; and ${left} more problems` : reason, problems, changes };
}

/** Describes a line that is not a command. */
export function unreadable(reason: string): UnusableLine {
  return { reason, problems: [{ field: jsonPath([]), reason }], changes: undefined };
}

function wrongCommand(reason: string): UnusableLine {
  const problems = [{ field: jsonPath(["command"]), reason }];
  return { reason: `command ${reason}`, problems, changes: undefined };
}

/** Formats the given command name for an error message. */
function shown(name: unknown): string {
  return typeof name === "string" ? JSON.stringify(name.slice(0, 60)) : "is not a text and";
}

/**
 * Creates ids of lines from their content, so that a repeated import recognizes its lines in any order. Lines with
 * equal content get different ids.
 */
export function createLineIds(): (key: string) => string {
  const seen = new Map<string, number>();
  return (key) => {
    const id = uuidv5(key, NAMESPACE);
    const before = seen.get(id) ?? 0;
    seen.set(id, before + 1);
    return before === 0 ? id : uuidv5(`${key}\n${before}`, NAMESPACE);
  };
}

/** Derives the id of an import from the digest of its file. */
export function importId(digest: string): string {
  return uuidv5(digest, NAMESPACE);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function byName([a]: [string, unknown], [b]: [string, unknown]): number {
  return a < b ? -1 : 1;
}
