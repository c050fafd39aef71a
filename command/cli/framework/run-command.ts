import type { z } from "zod";
import { type Command, type PrintedResult, toOptionProblems } from "./command.ts";
import { formatProblems, InputError } from "./failure.ts";
import { createOperatorContext, requireOperator, withEventLog } from "./operator.ts";

/** Option values as typed on the command line, by option name in camelCase. The value of a flag is true. */
export type RawOptions = Record<string, string | boolean | undefined>;

/** Interface between a command and its process: environment variables, streams and signals. */
export interface Terminal {
  env: NodeJS.ProcessEnv;
  /** Writes a line to standard output. Resolves when the line is written. */
  writeOutput(line: string): Promise<void>;
  /** Writes a line to standard error. Resolves when the line is written. */
  writeError(line: string): Promise<void>;
  stdin: NodeJS.ReadableStream;
  /** Redraws the progress bar on standard error; undefined if standard error is not a terminal. */
  redraw: ((text: string) => void) | undefined;
  /**
   * Catches the first Ctrl-C or SIGTERM and aborts the returned signal. The caller must then stop in an orderly way. A
   * second Ctrl-C or SIGTERM ends the process immediately.
   */
  catchInterruption(): AbortSignal;
}

/**
 * Runs one command and prints its result as one line of text or JSON.
 *
 * @throws {InputError} that names the invalid options
 */
export async function runCommand(command: Command, rawOptions: RawOptions, terminal: Terminal): Promise<void> {
  const { json, actor, ...optionTexts } = rawOptions;
  const checkResult = command.check(parseOptionTexts(command, optionTexts), true);
  if ("problems" in checkResult) throw new InputError(formatProblems(checkResult.problems, toOptionName));
  const context = createOperatorContext(
    requireOperator(terminal.env, typeof actor === "string" ? actor : undefined),
    Date.now(),
  );
  const printedResult = await withEventLog(terminal.env, (log) => checkResult.prepared.run(log, context));
  await terminal.writeOutput(formatResult(command, printedResult, json === true));
}

/**
 * Parses options of the command line with a schema.
 *
 * @throws {InputError} that names the invalid options
 */
export function parseOptions<Schema extends z.ZodType>(schema: Schema, rawOptions: RawOptions): z.output<Schema> {
  const parseResult = schema.safeParse(rawOptions);
  if (parseResult.success) return parseResult.data;
  throw new InputError(formatProblems(toOptionProblems(parseResult.error, rawOptions), toOptionName));
}

/** Formats the result of a command as one line of text or JSON. */
export function formatResult(
  { noun, verb }: Pick<Command, "noun" | "verb">,
  printedResult: PrintedResult,
  json = false,
): string {
  const { id, eventCount, extraValues } = printedResult;
  if (json) {
    const position = printedResult.position === undefined ? null : String(printedResult.position);
    return JSON.stringify({ command: `${noun} ${verb}`, id, changed: eventCount > 0, position, ...extraValues });
  }
  const status = eventCount > 0 ? "done" : "nothing to change";
  const extraTexts = Object.entries(extraValues).map(([name, value]) => `, ${name} ${value}`);
  return `${noun} ${verb}: ${status}, id ${id}${extraTexts.join("")}`;
}

/** Converts an option name to its form on the command line: `fullName` becomes `--full-name`. */
export function toOptionName(option: string): string {
  return `--${option.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

function parseOptionTexts(command: Command, optionTexts: RawOptions): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(optionTexts).map(([name, value]) => {
      const option = command.options[name];
      return [name, option && typeof value === "string" ? option.parseText(value) : value];
    }),
  );
}
