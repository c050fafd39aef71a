import type { Command, CommandOutcome } from "./command.ts";
import { InputError, problemsLine } from "./failure.ts";
import { operatorContext, withEventLog } from "./operator.ts";

/** What the command line said: texts by option in camelCase, flags as true. */
export type GivenOptions = Record<string, string | boolean | undefined>;

/** What a command is called. */
type CommandName = Pick<Command, "noun" | "verb">;

/** Where a command of the command line gets its surroundings from. */
export interface Terminal {
  env: NodeJS.ProcessEnv;
  /** Writes a line on standard output. Resolves when the reader keeps up. */
  out(line: string): Promise<void>;
  /** Writes a line on standard error. Resolves when the reader keeps up. */
  err(line: string): Promise<void>;
  stdin: NodeJS.ReadableStream;
  /** Redraws the progress bar on standard error; undefined where that is no terminal. */
  redraw: ((text: string) => void) | undefined;
  /**
   * Takes the first Ctrl-C or SIGTERM over from the system: the signal aborts, and the caller ends in order. The second
   * one ends the process at once.
   */
  interruption(): AbortSignal;
}

/**
 * Carries out one command and says what came of it in one line, of text or of JSON.
 *
 * @throws {InputError} which names the options
 */
export async function runCommand(command: Command, given: GivenOptions, terminal: Terminal): Promise<void> {
  const { json, actor, ...texts } = given;
  const checked = command.check(fromTexts(command, texts), true);
  if ("problems" in checked) throw new InputError(problemsLine(checked.problems, optionName));
  const context = operatorContext(typeof actor === "string" ? actor : undefined, Date.now());
  const outcome = await withEventLog(terminal.env, (log) => checked.call.outcome(log, context));
  await terminal.out(outcomeLine(command, outcome, json === true));
}

/** What came of a command, in one line of text or of JSON. */
export function outcomeLine(command: CommandName, outcome: CommandOutcome, json = false): string {
  return json ? jsonLine(command, outcome) : textLine(command, outcome);
}

/** `fullName` is `--full-name` on the command line. */
export function optionName(option: string): string {
  return `--${option.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

function fromTexts(command: Command, given: GivenOptions): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(given).map(([name, value]) => {
      const option = command.options[name];
      return [name, option && typeof value === "string" ? option.fromText(value) : value];
    }),
  );
}

function textLine({ noun, verb }: CommandName, { id, events, shown }: CommandOutcome): string {
  const done = events > 0 ? "done" : "nothing to change";
  const more = Object.entries(shown).map(([name, value]) => `, ${name} ${value}`);
  return `${noun} ${verb}: ${done}, id ${id}${more.join("")}`;
}

function jsonLine({ noun, verb }: CommandName, { id, events, position, shown }: CommandOutcome): string {
  const where = position === undefined ? null : String(position);
  return JSON.stringify({ command: `${noun} ${verb}`, id, changed: events > 0, position: where, ...shown });
}
