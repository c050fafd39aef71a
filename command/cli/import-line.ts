import { v5 as uuidv5 } from "uuid";
import type { Call } from "./command.ts";
import { commands } from "./commands.ts";
import { problemsLine } from "./failure.ts";

const NAMESPACE = "d8a1f6f2-5b0d-4b6e-9c3a-2f7e1c9b4a60";

/** What a line says: a command to carry out, or what is wrong with it. */
export type ReadLine = { call: Call; key: string } | { problem: string };

const importable = new Map(
  commands
    .filter((command) => command.importable)
    .map((command) => [`${command.noun} ${command.verb}`, command]),
);

/** Reads a line of an import: `{"command": "customer register", "id": …, …}`. Every id must be given. */
export function readLine(text: string): ReadLine {
  const value = parse(text.replace(/^\uFEFF/, ""));
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return { problem: "is not a JSON object" };
  const { command: name, ...given } = value as Record<string, unknown>;
  if (typeof name !== "string") return { problem: "command is missing" };
  const command = importable.get(name);
  if (!command) return { problem: `command: there is no ${JSON.stringify(name.slice(0, 60))} for an import` };
  const call = command.check(given, false);
  if (Array.isArray(call)) return { problem: problemsLine(call, (option) => option) };
  return { call, key: JSON.stringify([name, ...Object.entries(given).sort(byName)]) };
}

/**
 * Tells the lines of an import apart by what they say, so that a line is known again when the import is repeated,
 * wherever it then stands. Of lines that say the same, each one counts.
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

/** An id that follows from the content of the whole file. */
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
