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
 * @returns the exit code: 0 done, 2 bad input, 3 refused by the domain, 4 event log unavailable, 130 interrupted, 1
 *   any other error
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

/** Requested help is a success. Help that is shown because a command is missing is an error. */
async function endOfCommander(
  { code, exitCode, message }: CommanderError,
  terminal: Terminal,
): Promise<number> {
  if (exitCode === 0) return EXIT.done;
  const line = code === "commander.help" ? "no command given; see --help" : message;
  await terminal.err(`clinic: ${line.replace(/^error: /, "").replaceAll("\n", " ")}`);
  return EXIT.badInput;
}

const CALL = "npm run clinic --";

/** Creates the operator's command line: `<noun> <verb> [options]` and `import`. Errors are thrown, not printed. */
export function createProgram(terminal: Terminal, exit: (code: number) => void): Program {
  const program = new Program("clinic")
    .description("Operates the clinics. Each command is recorded in the event log completely or not at all.")
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
    .option("--actor <name>", "name of the operator, recorded with each event; default: your user name")
    .option("--json", "print the result as one line of JSON")
    .addHelpText("after", `\nExample:\n  ${CALL} ${line(command)}`)
    .action((given: GivenOptions) => runCommand(command, given, terminal));
}

function helpOf({ help, made, schema }: Option): string {
  if (made) return `${help}; generated if omitted`;
  return schema.safeParse(undefined).success ? help : `${help} (required)`;
}

function addImport(program: Program, terminal: Terminal, exit: (code: number) => void): void {
  program
    .command("import")
    .description(
      "Applies the commands of a file, one JSON object per line. Importing the same file again changes nothing.",
    )
    .argument("<file>", "path of the file, or - for standard input")
    .option("--dry-run", "check every line against the event log without writing")
    .option(
      "--log-wait <seconds>",
      `how long to wait for an event log that does not answer; default: ${DEFAULT_LOG_WAIT_S}`,
    )
    .option("--actor <name>", "name of the operator, recorded with each event; default: your user name")
    .option("--json", "print each failed line and the totals to standard output, one JSON object per line")
    .addHelpText("after", IMPORT_HELP)
    .action(async (file: string, given: ImportOptions) => exit(await importFile(file, given, terminal)));
}

function addRecover(group: Program, terminal: Terminal): void {
  group
    .command("recover")
    .description(
      "Replays all deliveries of an endpoint that failed or were skipped since the given time. A second run replays only those still failed or skipped.",
    )
    .option("--endpoint <uuid>", "the webhook endpoint (required)")
    .option(
      "--since <time>",
      "replay deliveries that failed or were skipped at or after this time, RFC 3339 (required)",
    )
    .option("--until <time>", "replay only deliveries that failed or were skipped before this time, RFC 3339")
    .option("--dry-run", "count the deliveries without replaying them")
    .option("--actor <name>", "name of the operator, recorded with each event; default: your user name")
    .option("--json", "print the result as one line of JSON")
    .addHelpText("after", RECOVER_HELP)
    .action((given: RecoverOptions) => recoverWebhooks(given, terminal));
}

function addRotate(group: Program, terminal: Terminal): void {
  group
    .command("rotate-secret")
    .description(
      "Issues a new signing secret for a webhook endpoint. The secret is shown only once. The previous secret stays valid for 24 hours.",
    )
    .option("--id <uuid>", "the webhook endpoint (required)")
    .option("--leaked", "stop signing with the previous secret immediately")
    .option("--actor <name>", "name of the operator, recorded with each event; default: your user name")
    .option("--json", "print the result as one line of JSON")
    .addHelpText("after", ROTATE_HELP)
    .action((given: RotateOptions) => rotateEndpointSecret(given, terminal));
}

function line(command: Command | undefined): string {
  return command ? `${command.noun} ${command.verb} ${command.example}` : "--help";
}

const ROTATE_HELP = `
The secret is encrypted with WEBHOOK_SECRET_KEYS. Use the same keys as the running services.

Example:
  ${CALL} endpoint rotate-secret --id 7d3e5f2a-4b1c-4d6e-8f90-a1b2c3d4e00b --leaked`;

const RECOVER_HELP = `
Example:
  ${CALL} webhooks recover --endpoint 7d3e5f2a-4b1c-4d6e-8f90-a1b2c3d4e00b --since 2026-05-04T00:00:00Z --dry-run`;
