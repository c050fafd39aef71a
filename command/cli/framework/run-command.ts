import type { Command, CommandOutcome } from "./command.ts";
import { InputError, problemsLine } from "./failure.ts";
import { operatorContext, withEventLog } from "./operator.ts";

/** Options from the command line by name in camelCase. Flags are true. */
export type GivenOptions = Record<string, string | boolean | undefined>;

/** Name of a command. */
type CommandName = Pick<Command, "noun" | "verb">;

/** Environment of a command: variables, streams and signals. */
export interface Terminal {
  env: NodeJS.ProcessEnv;
  /** Writes a line to standard output. Resolves when the line is written. */
  out(line: string): Promise<void>;
  /** Writes a line to standard error. Resolves when the line is written. */
  err(line: string): Promise<void>;
  stdin: NodeJS.ReadableStream;
  /** Redraws the progress bar on standard error; undefined if standard error is not a terminal. */
  redraw: ((text: string) => void) | undefined;
  /**
   * Handles the first Ctrl-C or SIGTERM: the returned signal aborts, and the caller stops in an orderly way. A second
   * one ends the process immediately.
   */
  interruption(): AbortSignal;
}

/**
 * Runs one command and prints its result as one line of text or JSON.
 *
 * @throws {InputError} that names the invalid options
 */
export async function runCommand(command: Command, given: GivenOptions, terminal: Terminal): Promise<void> {
  const { json, actor, ...texts } = given;
  const checked = command.check(fromTexts(command, texts), true);
  if ("problems" in checked) throw new InputError(problemsLine(checked.problems, optionName));
  const context = operatorContext(typeof actor === "string" ? actor : undefined, Date.now());
  const outcome = await withEventLog(terminal.env, (log) => checked.call.outcome(log, context));
  await terminal.out(outcomeLine(command, outcome, json === true));
}

/** Formats the result of a command as one line of text or JSON. */
export function outcomeLine(command: CommandName, outcome: CommandOutcome, json = false): string {
  return json ? jsonLine(command, outcome) : textLine(command, outcome);
}

/** Converts an option name to its form on the command line: `fullName` becomes `--full-name`. */
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
