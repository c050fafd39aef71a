import type { CommandLine } from "../../shared/command-line/command-line.ts";
import { createLinkCodeCommand } from "./commands/animal-link-commands.ts";
import { discloseCommand } from "./commands/disclose.ts";
import { domainCommands } from "./commands/domain-commands.ts";
import { recoverWebhooksCommand, rotateSecretCommand } from "./commands/endpoint-commands.ts";
import { eraseCommands } from "./commands/erase.ts";
import { generateKeysCommand } from "./commands/generate-keys.ts";
import { logCopyCommand } from "./commands/log-copy.ts";
import { applyRetentionCommand, listRetentionCommand } from "./commands/retention-commands.ts";
import { rotateDataKeysCommand } from "./commands/rotate-data-keys.ts";
import { toCommand } from "./domain-command.ts";
import { importCommand } from "./import/import-command.ts";

export const clinicCommandLine: CommandLine = {
  program: "clinic",
  description: "Manages clinics, partners and auditors. Every change is recorded in the event log.",
  commands: [
    ...domainCommands.map(toCommand),
    createLinkCodeCommand,
    discloseCommand,
    rotateSecretCommand,
    recoverWebhooksCommand,
    listRetentionCommand,
    applyRetentionCommand,
    ...eraseCommands,
    importCommand,
    logCopyCommand,
    rotateDataKeysCommand,
    generateKeysCommand,
  ],
  // The executable `clinic` passes these command lines on, so this program does not define them.
  details: `Other command lines:
  audit --help        commands for auditors
  projection --help   commands for the read models and the database`,
};
