import { CommanderError, Command as Program } from "commander";
import { formatCommandLine } from "../../shared/runtime/command-line.ts";
import { categoriesByType, hasClinic } from "../operations/personal-data/record-erasure.ts";
import { runRetention } from "./commands/apply-retention.ts";
import { commands } from "./commands/commands.ts";
import { discloseCustomer } from "./commands/disclose.ts";
import { type EraseCommand, eraseCommands, runErase } from "./commands/erase.ts";
import { listRetention } from "./commands/list-retention.ts";
import { recoverWebhooks } from "./commands/recover-webhooks.ts";
import { rotateMasterKey } from "./commands/rotate-data-keys.ts";
import { rotateEndpointSecret } from "./commands/rotate-secret.ts";
import type { Command } from "./framework/command.ts";
import { describeFailure, EXIT_CODE } from "./framework/failure.ts";
import type { Option } from "./framework/option.ts";
import { DEFAULT_LOG_WAIT_S } from "./framework/retry.ts";
import { type RawOptions, runCommand, type Terminal, toOptionName } from "./framework/run-command.ts";
import { type ImportOptions, importFile } from "./import/import-file.ts";
import { IMPORT_HELP } from "./import/import-help.ts";
import { LOG_COPY_HELP } from "./log-copy/log-copy-help.ts";
import { type LogCopyOptions, runLogCopy } from "./log-copy/run-log-copy.ts";

/**
 * Runs one command line.
 *
 * @param args words of the command line after the program's name
 * @returns the exit code: 0 success, 2 invalid input, 3 refused by a domain rule, 4 event log unavailable, 130
 *   interrupted, 1 any other error
 */
export async function runCli(args: string[], terminal: Terminal): Promise<number> {
  let exitCode: number = EXIT_CODE.done;
  const program = createProgram(terminal, (code) => {
    exitCode = code;
  });
  try {
    await program.parseAsync(args, { from: "user" });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return await reportCommanderError(error, terminal);
    const failure = describeFailure(error);
    await terminal.writeError(`clinic: ${failure.line}`);
    return failure.exitCode;
  }
}

/**
 * Reports an error of the commander library. Help that the user requested is a success. Help that is shown because the
 * command is missing is an error.
 */
async function reportCommanderError({ code, exitCode, message }: CommanderError, terminal: Terminal): Promise<number> {
  if (exitCode === 0) return EXIT_CODE.done;
  const line = code === "commander.help" ? "no command given; see --help" : message;
  await terminal.writeError(`clinic: ${line.replace(/^error: /, "").replaceAll("\n", " ")}`);
  return EXIT_CODE.badInput;
}

const ACTOR_OPTION = [
  "--actor <name>",
  "your name, recorded with each event; a note if the event log knows you; default: your user name",
] as const;
const JSON_OPTION = ["--json", "print the result as one line of JSON"] as const;

/**
 * Creates the operator's command line: `<noun> <verb> [options]` and `import`. Errors are thrown, not printed.
 *
 * @param setExitCode called with the exit code of `import`, `log copy` or `data-keys rotate`
 */
function createProgram(terminal: Terminal, setExitCode: (code: number) => void): Program {
  const program = new Program("clinic")
    .description("Manages clinics, partners and auditors. Every change is recorded in the event log.")
    .exitOverride()
    .configureOutput({ writeOut: (text) => void terminal.writeOutput(text.trimEnd()), writeErr: () => {} })
    .configureHelp({ sortSubcommands: false, helpWidth: 110 })
    .addHelpText("after", `${OTHER_COMMAND_LINES}\n${formatExample(commands[0])}`);
  for (const noun of new Set(commands.map((command) => command.noun))) {
    const nounCommands = commands.filter((command) => command.noun === noun);
    const group = program
      .command(noun)
      .description(nounCommands.map(({ verb }) => verb).join(", "))
      .addHelpText("after", formatExample(nounCommands[0]));
    for (const command of nounCommands) addCommand(group, command, terminal);
    if (noun === "customer") addDiscloseCommand(group.description(`${group.description()}, disclose`), terminal);
    if (noun === "endpoint") addRotateCommand(group.description(`${group.description()}, rotate-secret`), terminal);
    if (noun === "webhooks") addRecoverCommand(group.description("test, recover"), terminal);
    if (noun === "retention")
      addRetentionCommands(group.description(`${group.description()}, list, apply`), terminal, setExitCode);
  }
  for (const command of eraseCommands) addEraseCommand(program, command, terminal);
  addImportCommand(program, terminal, setExitCode);
  addLogCopyCommand(program, terminal, setExitCode);
  addDataKeysCommand(program, terminal, setExitCode);
  return program;
}

function addCommand(group: Program, command: Command, terminal: Terminal): void {
  const subcommand = group.command(command.verb).description(command.summary);
  for (const [name, option] of Object.entries(command.options)) {
    const placeholder = option.placeholder === undefined ? "" : ` <${option.placeholder}>`;
    subcommand.option(`${toOptionName(name)}${placeholder}`, describeOption(option));
  }
  subcommand
    .option(...ACTOR_OPTION)
    .option(...JSON_OPTION)
    .addHelpText("after", formatExample(command))
    .action((rawOptions: RawOptions) => runCommand(command, rawOptions, terminal));
}

function describeOption({ help, isGenerated, schema }: Option): string {
  if (isGenerated) return `${help}; generated if omitted`;
  return schema.safeParse(undefined).success ? help : `${help} (required)`;
}

function addImportCommand(program: Program, terminal: Terminal, setExitCode: (code: number) => void): void {
  program
    .command("import")
    .description(
      "Applies the commands of a file, one JSON object per line. Importing the same file again changes nothing.",
    )
    .argument("<file>", "path of the file, or - for standard input")
    .option("--dry-run", "check every line against the event log without writing")
    .option("--log-wait <seconds>", `how long to wait for an unavailable event log; default: ${DEFAULT_LOG_WAIT_S}`)
    .option(...ACTOR_OPTION)
    .option("--json", "print each failed line and the totals to standard output, one JSON object per line")
    .addHelpText("after", IMPORT_HELP)
    .action(async (file: string, options: ImportOptions) => setExitCode(await importFile(file, options, terminal)));
}

function addLogCopyCommand(program: Program, terminal: Terminal, setExitCode: (code: number) => void): void {
  program
    .command("log")
    .description("copy")
    .addHelpText("after", formatExampleText("log copy"))
    .command("copy")
    .description("Copies the event log to another server, and verifies the copy.")
    .option("--verify-only", "compare the logs without copying")
    .option("--encrypt", "encrypt personal data that the source holds in plain text")
    .option("--log-wait <seconds>", `how long to wait for an unavailable event log; default: ${DEFAULT_LOG_WAIT_S}`)
    .option(...JSON_OPTION)
    .addHelpText("after", LOG_COPY_HELP)
    .action(async (options: LogCopyOptions) => setExitCode(await runLogCopy(options, terminal)));
}

function addDiscloseCommand(group: Program, terminal: Terminal): void {
  group
    .command("disclose")
    .description(
      "Writes everything held about a customer to a file: all data, its changes, who saw it, and who received it. The disclosure itself is recorded.",
    )
    .option("--clinic <uuid>", "the clinic (required)")
    .option("--customer <uuid>", "the customer (required)")
    .option("--format <format>", "json, or html for a printable page; default: json")
    .option("--output <file>", "output file, which must not exist; only its owner can read it (required)")
    .option(...ACTOR_OPTION)
    .option(...JSON_OPTION)
    .addHelpText("after", DISCLOSE_HELP)
    .action((rawOptions: RawOptions) => discloseCustomer(rawOptions, terminal));
}

function addDataKeysCommand(program: Program, terminal: Terminal, setExitCode: (code: number) => void): void {
  program
    .command("data-keys")
    .description("rotate")
    .addHelpText("after", formatExampleText("data-keys rotate"))
    .command("rotate")
    .description(
      "Wraps all data keys of personal data with the current master key of PERSONAL_DATA_KEYS. Afterwards, no data key needs another master key. An interrupted rotation can be repeated.",
    )
    .option(...JSON_OPTION)
    .addHelpText("after", formatExampleText("data-keys rotate"))
    .action(async (rawOptions: RawOptions) => setExitCode(await rotateMasterKey(rawOptions, terminal)));
}

function addRecoverCommand(group: Program, terminal: Terminal): void {
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
    .option(...ACTOR_OPTION)
    .option(...JSON_OPTION)
    .addHelpText("after", RECOVER_HELP)
    .action((rawOptions: RawOptions) => recoverWebhooks(rawOptions, terminal));
}

function addRotateCommand(group: Program, terminal: Terminal): void {
  group
    .command("rotate-secret")
    .description(
      "Issues a new signing secret for a webhook endpoint. The secret is shown only once. The previous secret stays valid for 24 hours.",
    )
    .option("--id <uuid>", "the webhook endpoint (required)")
    .option("--leaked", "stop signing with the previous secret immediately")
    .option(...ACTOR_OPTION)
    .option(...JSON_OPTION)
    .addHelpText("after", ROTATE_HELP)
    .action((rawOptions: RawOptions) => rotateEndpointSecret(rawOptions, terminal));
}

/** Adds a command `erase` to the group of a noun, or to a new group. */
function addEraseCommand(program: Program, command: EraseCommand, terminal: Terminal): void {
  const { noun, type, summary } = command;
  const example = `${noun} erase --id ${EXAMPLE_PERSON_ID}${hasClinic(type) ? EXAMPLE_CLINIC : ""} --reason 'Request 2026-17'`;
  const existingGroup = program.commands.find((group) => group.name() === noun);
  const group = existingGroup ?? program.command(noun).addHelpText("after", formatExampleText(example));
  group.description([...(existingGroup ? [existingGroup.description()] : []), "erase"].join(", "));
  const subcommand = group.command("erase").description(summary).option("--id <uuid>", `the ${noun} (required)`);
  if (hasClinic(type)) subcommand.option("--clinic <uuid>", "the clinic (required)");
  const categories = categoriesByType[type].join(",");
  subcommand
    .option("--categories <list>", `categories of personal data, separated by commas; default: ${categories}`)
    .option("--reason <text>", "reason, which stays readable forever; must not contain personal data (required)")
    .option(...ACTOR_OPTION)
    .option(...JSON_OPTION)
    .addHelpText("after", `${ERASE_HELP}${formatExampleText(example)}`)
    .action((rawOptions: RawOptions) => runErase(command, rawOptions, terminal));
}

function addRetentionCommands(group: Program, terminal: Terminal, setExitCode: (code: number) => void): void {
  group
    .command("list")
    .description("Shows a clinic's retention rules.")
    .option("--clinic <uuid>", "the clinic (required)")
    .option(...JSON_OPTION)
    .addHelpText("after", formatExampleText(`retention list${EXAMPLE_CLINIC}`))
    .action((rawOptions: RawOptions) => listRetention(rawOptions, terminal));
  group
    .command("apply")
    .description(
      "Erases personal data whose retention period has ended. Also destroys again the data keys that a restore has brought back. Run it daily.",
    )
    .option("--clinic <uuid>", "apply only the rules of this clinic; default: all clinics")
    .option("--dry-run", "list the persons without erasing their data")
    .option(...ACTOR_OPTION)
    .option(...JSON_OPTION)
    .addHelpText("after", `${ERASE_HELP}${formatExampleText("retention apply --dry-run")}`)
    .action(async (rawOptions: RawOptions) => setExitCode(await runRetention(rawOptions, terminal)));
}

/** Formats a command's example for the help text. */
function formatExample(command: Command | undefined): string {
  return formatExampleText(command ? `${command.noun} ${command.verb} ${command.example}` : "--help");
}

/** @param args words after the program's name */
function formatExampleText(args: string): string {
  return `\nExample:\n  ${formatCommandLine(args)}`;
}

const EXAMPLE_ENDPOINT_ID = "7d3e5f2a-4b1c-4d6e-8f90-a1b2c3d4e00b";

const EXAMPLE_PERSON_ID = "5f0e8a52-7a3c-4be5-9d0a-8a4a62f7c002";
const EXAMPLE_CLINIC = " --clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";

const ERASE_HELP = `
An erasure cannot be undone. DATABASE_URL must be the one of the projection service.
`;

const ROTATE_HELP = `
The secret is encrypted with WEBHOOK_SECRET_KEYS. Use the same keys as the running services.
${formatExampleText(`endpoint rotate-secret --id ${EXAMPLE_ENDPOINT_ID} --leaked`)}`;

const DISCLOSE_HELP = `
Needs DATABASE_URL and the keys of the personal data.
${formatExampleText("customer disclose --clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001 --customer 5f0e8a52-7a3c-4be5-9d0a-8a4a62f7c002 --format html --output disclosure.html")}`;

const RECOVER_HELP = formatExampleText(
  `webhooks recover --endpoint ${EXAMPLE_ENDPOINT_ID} --since 2026-05-04T00:00:00Z --dry-run`,
);

/** The executable `clinic` passes the command lines `audit` and `projection` on, so this program does not define them. */
const OTHER_COMMAND_LINES = `
Other command lines:
  audit --help        commands for auditors
  projection --help   commands for the read models and the database`;
