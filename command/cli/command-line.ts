import type { CommandLine } from "../../shared/command-line/command-line.ts";
import { completionCommand } from "../../shared/command-line/completion-command.ts";
import { describeFailure } from "../../shared/command-line/describe-failure.ts";
import { LOCAL_TIME_NOTE, withLocalTimes } from "../../shared/command-line/local-times.ts";
import { staffCommands } from "../operations/commands.ts";
import { discloseCommand } from "./commands/disclose.ts";
import { eraseCommands } from "./commands/erase.ts";
import { generateKeysCommand, rotateDataKeysCommand } from "./commands/key-commands.ts";
import { listCommands } from "./commands/list-commands.ts";
import { listenCommand } from "./commands/listen.ts";
import { applyRetentionCommand, listRetentionCommand } from "./commands/retention-commands.ts";
import { findTimeZone } from "./find-time-zone.ts";
import { importCommand } from "./import/import-command.ts";
import { logCopyCommand } from "./log-copy/log-copy-command.ts";
import { NAME_NOTE, withNames } from "./resolve-options.ts";
import { toCommand } from "./staff-command.ts";

export const clinicCommandLine: CommandLine = {
  program: "clinic",
  description: "Manages clinics, partners and auditors. Every change is recorded in the event log.",
  commands: [
    ...staffCommands.map(toCommand),
    discloseCommand,
    listRetentionCommand,
    applyRetentionCommand,
    ...listCommands,
    listenCommand,
    ...eraseCommands,
    importCommand,
    logCopyCommand,
    rotateDataKeysCommand,
    generateKeysCommand,
    completionCommand,
  ].map((command) => withNames(withLocalTimes(command, findTimeZone))),
  describeFailure,
  // The executable `clinic` passes these command lines on, so this program does not define them.
  details: `${NAME_NOTE} Names need the DATABASE_URL of the projection service.
${LOCAL_TIME_NOTE}

Other command lines:
  audit --help       commands for auditors
  projection --help  commands for the read models and the database
  --version          prints the version`,
};
