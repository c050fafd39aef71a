import { CommanderError, Help, Command as Program } from "commander";
import type { CommandLine } from "./command-line.ts";
import { EXIT_CODE } from "./failure.ts";
import { foldCommandLine, formatCommandLine } from "./format-command-line.ts";
import { renderLine } from "./style.ts";
import type { Terminal } from "./terminal.ts";

/** Texts of an option that the parser, the help and the shell completion need. */
export interface OptionTexts {
  /** Syntax of the option, such as `--full-name <text>`. For a positional argument, only its name. */
  flags: string;
  help: string;
  isPositional: boolean;
  /** Permitted values; undefined if the option is not an enumeration. */
  values: readonly string[] | undefined;
}

export interface CommandTexts {
  name: string;
  summary: string;
  example: string;
  details: string | undefined;
  options: readonly OptionTexts[];
}

/** Names and help texts of a program's commands, available without loading the commands' code. */
export interface CommandLineTexts {
  program: string;
  description: string;
  details: string | undefined;
  commands: readonly CommandTexts[];
}

/**
 * Runs one command line, and prints an error as one line on standard error.
 *
 * @param load loads the code of the commands; called only to run a command
 * @param args words after the program's name
 * @returns the exit code, see {@link EXIT_CODE}
 */
export async function runProgram(
  texts: CommandLineTexts,
  load: () => Promise<CommandLine>,
  args: readonly string[],
  plainTerminal: Terminal,
): Promise<number> {
  let exitCode: number = EXIT_CODE.done;
  let missingCommandHelp = "";
  const terminal = escapeOutput(plainTerminal);
  const program = createProgram(texts, terminal, {
    async run(name, givenTexts) {
      const { commands } = await load();
      const command = commands.find((candidate) => candidate.name === name);
      if (!command) throw new Error(`the command ${name} is not part of this release; build it again`);
      // Converts the texts to the JSON types that the schemas expect. The value of a flag is true.
      const values = Object.entries(givenTexts).map(([option, value]) => [
        option,
        typeof value === "string" ? (command.options[option]?.parseText(value) ?? null) : value,
      ]);
      exitCode = (await command.run(Object.fromEntries(values), terminal)) ?? EXIT_CODE.done;
    },
    showMissingCommandHelp(text) {
      missingCommandHelp += text;
    },
  });
  try {
    await program.parseAsync(requireKnownCommand(program, args), { from: "user" });
    return exitCode;
  } catch (error) {
    const failure = error instanceof CommanderError ? describeUsageError(error) : (await load()).describeFailure(error);
    if (failure.exitCode === EXIT_CODE.done) return failure.exitCode;
    if (error instanceof CommanderError && error.code === MISSING_COMMAND)
      await terminal.writeOutput(`${missingCommandHelp.trimEnd()}\n`);
    await terminal.writeError(`${texts.program.split(" ").at(-1)}: ${failure.line.replaceAll("\n", " ")}`);
    return failure.exitCode;
  }
}

/** Escapes control characters in everything that a command prints, because a terminal would interpret them. */
function escapeOutput(terminal: Terminal): Terminal {
  const { writeOutput, writeError, redraw } = terminal;
  return {
    ...terminal,
    writeOutput: (line) => writeOutput(renderLine(line)),
    writeError: (line) => writeError(renderLine(line)),
    redraw: redraw && ((text) => redraw(renderLine(text))),
  };
}

/** Commander's error code for a missing command. */
const MISSING_COMMAND = "commander.help";

/**
 * Returns the exit code and the error line for a usage error. Requested help is a success. Help that is shown because
 * the command is missing is an error.
 */
function describeUsageError({ code, exitCode, message }: CommanderError) {
  const line = code === MISSING_COMMAND ? "no command given" : message;
  return { exitCode: exitCode === 0 ? EXIT_CODE.done : EXIT_CODE.badInput, line: line.replace(/^error: /, "") };
}

/** Verbs that operators often try, with the verbs that the commands use instead. */
const SYNONYMS = [
  { tried: ["move"], verbs: ["reschedule"] },
  {
    tried: ["create", "add", "new"],
    verbs: ["register", "open", "add", "offer", "hire", "request", "issue", "create"],
  },
  { tried: ["delete", "remove", "rm"], verbs: ["revoke", "remove", "close", "retire", "withdraw", "cancel", "erase"] },
  { tried: ["show", "get", "ls"], verbs: ["list", "status"] },
  { tried: ["update", "edit", "set"], verbs: ["change", "set"] },
];

/**
 * Returns the arguments for the parser. Converts `help <command>` to `<command> --help`. Omits `--help` if the command
 * is unknown, because the parser would otherwise print the help of the parent command.
 *
 * @throws {CommanderError} if a known command has a synonym of the unknown verb; suggests this command
 */
function requireKnownCommand(program: Program, args: readonly string[]): readonly string[] {
  let parent = program;
  if (args[0] === "help") return requireKnownCommand(program, [...args.slice(1), "--help"]);
  for (const word of args) {
    if (word.startsWith("-") || parent.commands.length === 0) return args;
    const command = parent.commands.find((candidate) => candidate.name() === word);
    if (!command) {
      const names = parent.commands.map((candidate) => candidate.name());
      const verbs = SYNONYMS.flatMap((group) => (group.tried.includes(word) ? group.verbs : []));
      const suggestions = verbs.filter((verb) => names.includes(verb));
      if (suggestions.length > 0)
        throw new CommanderError(2, "", `unknown command '${word}' (Did you mean ${suggestions.join(" or ")}?)`);
      return args.filter((arg) => arg !== "--help" && arg !== "-h");
    }
    parent = command;
  }
  return args;
}

/** Width of help texts that are not written to a terminal, in characters. */
const HELP_WIDTH = 80;

/** Fits paragraphs to a width in characters. Indented lines stay as they are, for example a line of a file. */
function wrapParagraphs(text: string, width: number): string {
  const help = new Help();
  return text.replaceAll(/^\S.*(?:\n\S.*)*/gm, (paragraph) => help.boxWrap(paragraph.replaceAll("\n", " "), width));
}

/** Creates the parser of the command line. The parser throws errors instead of printing them. */
function createProgram(
  { program: programName, description, commands, details }: CommandLineTexts,
  terminal: Terminal,
  {
    run,
    showMissingCommandHelp,
  }: {
    run(name: string, givenTexts: Record<string, unknown>): Promise<void>;
    showMissingCommandHelp(text: string): void;
  },
): Program {
  const [, ...prefix] = programName.split(" ");
  const helpWidth = terminal.columns ?? HELP_WIDTH;
  const formatHelp = (text: string | undefined, ...example: string[]) => {
    const exampleLine = formatCommandLine([...prefix, ...example].join(" ").trimEnd());
    return `${text === undefined ? "" : `\n${wrapParagraphs(text, helpWidth)}\n`}\nExample:\n  ${foldCommandLine(exampleLine, helpWidth - 2)}`;
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
  for (const { name, summary, options, example, details: commandDetails } of commands) {
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
    const positionalNames = options.flatMap(({ isPositional, flags }) => (isPositional ? flags : []));
    for (const { flags, help, isPositional } of options) {
      if (isPositional) subcommand.argument(`<${flags}>`, help);
      else subcommand.option(flags, help);
    }
    subcommand.addHelpText("after", formatHelp(commandDetails, name, example)).action(async (...words: unknown[]) => {
      const positionalValues = positionalNames.map((optionName, index) => [optionName, words[index]]);
      await run(name, { ...Object.fromEntries(positionalValues), ...(words[positionalNames.length] as object) });
    });
  }
  return program;
}
