import { CommanderError, Help, Command as Program } from "commander";
import { describeFailure, EXIT_CODE, type OwnExitCodes } from "./failure.ts";
import { foldCommandLine, formatCommandLine } from "./format-command-line.ts";
import { type Option, type Options, type OptionValues, readOptions, toOptionName } from "./option.ts";
import { escapeControlCharacters, type Terminal } from "./terminal.ts";

export interface Command {
  /** One word, or several: nouns and a verb. */
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
  ownExitCodes?: OwnExitCodes;
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

/**
 * Runs one command line, and prints an error as one line on standard error.
 *
 * @param args words after the program's name
 * @returns the exit code, see {@link EXIT_CODE}
 */
export async function runCommandLine(
  commandLine: CommandLine,
  args: readonly string[],
  terminal: Terminal,
): Promise<number> {
  let exitCode: number = EXIT_CODE.done;
  let missingCommandHelp = "";
  const program = createProgram(commandLine, terminal, {
    setExitCode(code) {
      exitCode = code;
    },
    showMissingCommandHelp(text) {
      missingCommandHelp += text;
    },
  });
  try {
    await program.parseAsync(args, { from: "user" });
    return exitCode;
  } catch (error) {
    const failure =
      error instanceof CommanderError ? describeUsageError(error) : describeFailure(error, commandLine.ownExitCodes);
    if (failure.exitCode === EXIT_CODE.done) return failure.exitCode;
    if (error instanceof CommanderError && error.code === MISSING_COMMAND)
      await terminal.writeOutput(`${missingCommandHelp.trimEnd()}\n`);
    await terminal.writeError(`${commandLine.program.split(" ").at(-1)}: ${escapeControlCharacters(failure.line)}`);
    return failure.exitCode;
  }
}

/** Commander's code of the error for a command line without a command. */
const MISSING_COMMAND = "commander.help";

/** Help that the user requested is a success. Help that is shown because the command is missing is an error. */
function describeUsageError({ code, exitCode, message }: CommanderError) {
  const line = code === MISSING_COMMAND ? "no command given" : message;
  return {
    exitCode: exitCode === 0 ? EXIT_CODE.done : EXIT_CODE.badInput,
    line: line.replace(/^error: /, "").replaceAll("\n", " "),
  };
}

/** Width of help texts that are not written to a terminal, in characters. */
const HELP_WIDTH = 80;

/** Fits paragraphs to a width in characters. Indented lines stay as they are, for example a line of a file. */
function wrapParagraphs(text: string, width: number): string {
  const help = new Help();
  return text.replaceAll(/^\S.*(?:\n\S.*)*/gm, (paragraph) => help.boxWrap(paragraph.replaceAll("\n", " "), width));
}

/** Creates the parser of the command line. It throws errors instead of printing them. */
function createProgram(
  { program: programName, description, commands, details }: CommandLine,
  terminal: Terminal,
  {
    setExitCode,
    showMissingCommandHelp,
  }: { setExitCode(code: number): void; showMissingCommandHelp(text: string): void },
): Program {
  const [, ...prefix] = programName.split(" ");
  const helpWidth = terminal.columns ?? HELP_WIDTH;
  const formatHelp = (details: string | undefined, ...example: string[]) => {
    const exampleLine = formatCommandLine([...prefix, ...example].join(" ").trimEnd());
    return `${details === undefined ? "" : `\n${wrapParagraphs(details, helpWidth)}\n`}\nExample:\n  ${foldCommandLine(exampleLine, helpWidth - 2)}`;
  };
  const program = new Program(programName)
    .description(description)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void terminal.writeOutput(text.trimEnd()),
      writeErr: showMissingCommandHelp,
    })
    .configureHelp({ sortSubcommands: false, helpWidth });
  const [firstCommand] = commands;
  if (firstCommand) program.addHelpText("after", formatHelp(details, firstCommand.name, firstCommand.example));
  for (const command of commands) {
    const { name, summary, options, example } = command;
    const nouns = name.split(" ");
    const verb = nouns.pop() ?? "";
    let parent = program;
    for (const [index, noun] of nouns.entries()) {
      const group = parent.commands.find((subcommand) => subcommand.name() === noun);
      const nextWord = nouns[index + 1] ?? verb;
      parent = group ?? parent.command(noun).addHelpText("after", formatHelp(undefined, name, example));
      const words = new Set([...(group ? group.description().split(", ") : []), nextWord]);
      parent.description([...words].join(", "));
    }
    const subcommand = parent.command(verb).description(summary);
    const positionalNames: string[] = [];
    for (const [optionName, option] of Object.entries(options)) {
      if (option.isPositional) {
        positionalNames.push(optionName);
        subcommand.argument(`<${optionName}>`, option.help);
      } else {
        const placeholder = option.placeholder === undefined ? "" : ` <${option.placeholder}>`;
        subcommand.option(`${toOptionName(optionName)}${placeholder}`, describeOption(option));
      }
    }
    subcommand.addHelpText("after", formatHelp(command.details, name, example)).action(async (...words: unknown[]) => {
      const positionalValues = positionalNames.map((optionName, index) => [optionName, words[index]]);
      const givenTexts = { ...Object.fromEntries(positionalValues), ...(words[positionalNames.length] as object) };
      const exitCode = await command.run(parseOptionTexts(options, givenTexts), terminal);
      if (exitCode !== undefined) setExitCode(exitCode);
    });
  }
  return program;
}

function describeOption({ help, isGenerated, schema }: Option): string {
  if (isGenerated) return `${help}; generated if omitted`;
  return schema.safeParse(undefined).success ? help : `${help} (required)`;
}

/** Converts the texts of options to the JSON types that their schemas expect. The value of a flag is true. */
function parseOptionTexts(options: Options, givenTexts: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(givenTexts).map(([name, value]) => [
      name,
      typeof value === "string" ? (options[name]?.parseText(value) ?? null) : value,
    ]),
  );
}
