import { CommanderError, Command as Program } from "commander";
import { commands } from "./commands/commands.ts";
import { type RecoverOptions, recoverWebhooks } from "./commands/recover-webhooks.ts";
import { type RotateOptions, rotateEndpointSecret } from "./commands/rotate-secret.ts";
import type { Command } from "./framework/command.ts";
import { EXIT, failureOf } from "./framework/failure.ts";
import type { Option } from "./framework/option.ts";
import { type GivenOptions, optionName, runCommand, type Terminal } from "./framework/run-command.ts";
import { DEFAULT_LOG_WAIT_S, type ImportOptions, importFile } from "./import/import-file.ts";
import { IMPORT_HELP } from "./import/import-help.ts";

/**
 * Runs one command line.
 *
 * @returns the exit code: 0 done, 2 bad input, 3 refused by the domain, 4 event log out of reach, 130 interrupted,
 *   1 anything else
 */
export async function runCli(words: string[], terminal: Terminal): Promise<number> {
  let code: number = EXIT.done;
  const program = createProgram(terminal, (given) => {
    code = given;
  });
  try {
    await program.parseAsync(words, { from: "user" });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return await endOfCommander(error, terminal);
    const failure = failureOf(error);
    await terminal.err(`clinic: ${failure.line}`);
    return failure.code;
  }
}

/** Help that was asked for is no error; help that was shown since a word is missing is one. */
async function endOfCommander(
  { code, exitCode, message }: CommanderError,
  terminal: Terminal,
): Promise<number> {
  if (exitCode === 0) return EXIT.done;
  const line = code === "commander.help" ? "a command is missing; see --help" : message;
  await terminal.err(`clinic: ${line.replace(/^error: /, "").replaceAll("\n", " ")}`);
  return EXIT.badInput;
}

const CALL = "npm run clinic --";

/** The operator's command line: `<noun> <verb> [options]`, and `import`. Errors are thrown, not printed. */
export function createProgram(terminal: Terminal, exit: (code: number) => void): Program {
  const program = new Program("clinic")
    .description("Records the facts of the clinics: each command is an event or none, never a half.")
    .exitOverride()
    .configureOutput({ writeOut: (text) => void terminal.out(text.trimEnd()), writeErr: () => {} })
    .configureHelp({ sortSubcommands: false, helpWidth: 110 })
    .addHelpText("after", `\nExample:\n  ${CALL} ${line(commands[0])}`);
  for (const noun of new Set(commands.map((command) => command.noun))) {
    const own = commands.filter((command) => command.noun === noun);
    const group = program
      .command(noun)
      .description(own.map(({ verb }) => verb).join(", "))
      .addHelpText("after", `\nExample:\n  ${CALL} ${line(own[0])}`);
    for (const command of own) addCommand(group, command, terminal);
    if (noun === "endpoint") addRotate(group.description(`${group.description()}, rotate-secret`), terminal);
    if (noun === "webhooks") addRecover(group.description("test, recover"), terminal);
  }
  addImport(program, terminal, exit);
  return program;
}

function addCommand(group: Program, command: Command, terminal: Terminal): void {
  const leaf = group.command(command.verb).description(command.summary);
  for (const [name, option] of Object.entries(command.options)) {
    const value = option.placeholder === undefined ? "" : ` <${option.placeholder}>`;
    leaf.option(`${optionName(name)}${value}`, helpOf(option));
  }
  leaf
    .option("--actor <name>", "who does it; by default the user of the operating system")
    .option("--json", "answer in one line of JSON")
    .addHelpText("after", `\nExample:\n  ${CALL} ${line(command)}`)
    .action((given: GivenOptions) => runCommand(command, given, terminal));
}

function helpOf({ help, made, schema }: Option): string {
  if (made) return `${help}; one is made where it is left out`;
  return schema.safeParse(undefined).success ? help : `${help} (required)`;
}

function addImport(program: Program, terminal: Terminal, exit: (code: number) => void): void {
  program
    .command("import")
    .description(
      "Applies the commands of a file, one JSON object per line. Importing the same file again changes nothing.",
    )
    .argument("<file>", "the file, or - for standard input")
    .option("--dry-run", "check every line against the log, and write nothing")
    .option(
      "--log-wait <seconds>",
      `how long to wait for an event log that does not answer; by default ${DEFAULT_LOG_WAIT_S}`,
    )
    .option("--actor <name>", "who does it; by default the user of the operating system")
    .option("--json", "write every failed line and the totals on standard output, a JSON object per line")
    .addHelpText("after", IMPORT_HELP)
    .action(async (file: string, given: ImportOptions) => exit(await importFile(file, given, terminal)));
}

function addRecover(group: Program, terminal: Terminal): void {
  group
    .command("recover")
    .description(
      "Replays every delivery of an endpoint that failed or was skipped since a time; again, what is so by then.",
    )
    .option("--endpoint <uuid>", "the webhook endpoint (required)")
    .option("--since <time>", "RFC 3339; of when the delivery failed or was skipped (required)")
    .option("--until <time>", "RFC 3339; only what failed or was skipped before it")
    .option("--dry-run", "count, and replay nothing")
    .option("--actor <name>", "who does it; by default the user of the operating system")
    .option("--json", "answer in one line of JSON")
    .addHelpText("after", RECOVER_HELP)
    .action((given: RecoverOptions) => recoverWebhooks(given, terminal));
}

function addRotate(group: Program, terminal: Terminal): void {
  group
    .command("rotate-secret")
    .description(
      "Gives a webhook endpoint a new signing secret and shows it, this once; the former one signs for 24 hours more.",
    )
    .option("--id <uuid>", "the webhook endpoint (required)")
    .option("--leaked", "the former secret signs nothing any more from now on")
    .option("--actor <name>", "who does it; by default the user of the operating system")
    .option("--json", "answer in one line of JSON")
    .addHelpText("after", ROTATE_HELP)
    .action((given: RotateOptions) => rotateEndpointSecret(given, terminal));
}

function line(command: Command | undefined): string {
  return command ? `${command.noun} ${command.verb} ${command.example}` : "--help";
}

const ROTATE_HELP = `
It encrypts the secret with WEBHOOK_SECRET_KEYS, which must be those of the services.

Example:
  ${CALL} endpoint rotate-secret --id 7d3e5f2a-4b1c-4d6e-8f90-a1b2c3d4e00b --leaked`;

const RECOVER_HELP = `
Example:
  ${CALL} webhooks recover --endpoint 7d3e5f2a-4b1c-4d6e-8f90-a1b2c3d4e00b --since 2026-05-04T00:00:00Z --dry-run`;
