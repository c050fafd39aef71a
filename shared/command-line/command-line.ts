import { z } from "zod";
import type { Failure } from "./failure.ts";
import { isOptional, type Option, type Options, type OptionValues, readOptions, toOptionName } from "./option.ts";
import { type CommandLineTexts, type OptionTexts, runProgram } from "./program.ts";
import type { Terminal } from "./terminal.ts";

export interface Command {
  /** One or several words, such as `import` or `keys generate`. */
  name: string;
  summary: string;
  options: Options;
  /** Words after the command's name in the example of the help text. */
  example: string;
  /** Further help text, between the options and the example. */
  details?: string | undefined;
  /**
   * Runs the command.
   *
   * @param givenValues values of the options that the operator has given, not yet validated
   * @returns the exit code; nothing if the command has succeeded
   */
  run(givenValues: Record<string, unknown>, terminal: Terminal): Promise<number | undefined>;
}

export interface CommandLine {
  /** Words before the name of a command, such as `clinic audit`. The last word starts each error message. */
  program: string;
  description: string;
  commands: readonly Command[];
  details?: string;
  /** Converts an error of a command to its line of text and its exit code. */
  describeFailure(error: unknown): Failure;
}

/** Defines a command whose options are validated before the command runs. */
export function defineCommand<O extends Options>(
  declaration: Omit<Command, "options" | "run"> & {
    options: O;
    run(values: OptionValues<O>, terminal: Terminal): Promise<number | undefined> | Promise<void>;
  },
): Command {
  return {
    ...declaration,
    run: async (givenValues, terminal) =>
      (await declaration.run(readOptions(declaration.options, givenValues), terminal)) ?? undefined,
  };
}

/** Runs a command line. Unlike {@link runProgram}, requires that the code of its commands is already loaded. */
export function runCommandLine(commandLine: CommandLine, args: readonly string[], terminal: Terminal): Promise<number> {
  return runProgram(describeCommandLine(commandLine), async () => commandLine, args, terminal);
}

/**
 * Returns the texts of a command line: names, help and options. Help, parser and completion need only these texts, not
 * the code of the commands.
 */
export function describeCommandLine({ program, description, details, commands }: CommandLine): CommandLineTexts {
  return {
    ...{ program, description, details },
    commands: commands.map(({ name, summary, example, details: commandDetails, options }) => ({
      ...{ name, summary, example, details: commandDetails },
      options: Object.entries(options).map(([key, option]) => describeOption(key, option)),
    })),
  };
}

function describeOption(
  key: string,
  { help, placeholder = "", isGenerated, isPositional, schema }: Option,
): OptionTexts {
  const values = findValues(schema);
  if (isPositional) return { flags: key, help, isPositional, values };
  const argument = placeholder.startsWith("[") || placeholder === "" ? placeholder : `<${placeholder}>`;
  const note = isGenerated ? "; generated if omitted" : isOptional(schema) ? "" : " (required)";
  return { flags: `${toOptionName(key)} ${argument}`.trimEnd(), help: `${help}${note}`, isPositional, values };
}

/** Returns the values that an enumeration permits. */
function findValues(schema: z.ZodType): string[] | undefined {
  if (schema instanceof z.ZodEnum) return schema.options.map(String);
  if (schema instanceof z.ZodPipe) return findValues(schema.in as z.ZodType);
  return "unwrap" in schema && !(schema instanceof z.ZodArray)
    ? findValues((schema as z.ZodOptional).unwrap() as z.ZodType)
    : undefined;
}
