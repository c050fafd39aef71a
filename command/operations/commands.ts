import * as animalLinks from "./animal-link-operations.ts";
import * as applications from "./application-operations.ts";
import * as appointments from "./appointment-operations.ts";
import * as auditors from "./auditor-operations.ts";
import * as catalog from "./catalog-operations.ts";
import * as clinics from "./clinic-operations.ts";
import * as customers from "./customer-operations.ts";
import type { StaffCommand } from "./define-command.ts";
import * as endpoints from "./endpoint-commands.ts";
import * as frontDesk from "./front-desk-operations.ts";
import * as installations from "./installation-operations.ts";
import { declareOperatorCommands } from "./operator-operations.ts";
import * as people from "./people-operations.ts";

/** Modules that export commands, in the order of the help text. */
const modules = [
  ...[clinics, people, customers, animalLinks, catalog, appointments, frontDesk, applications, installations],
  ...[endpoints, auditors],
];

const otherCommands = modules.flatMap((module) => Object.values<unknown>(module).flat().flatMap(findCommand));

/**
 * Returns a list with the command, if the export is a command or an operation with a command; otherwise an empty list.
 */
function findCommand(exported: unknown): StaffCommand[] {
  const entry = typeof exported === "function" && "command" in exported ? exported.command : exported;
  return typeof entry === "object" && entry !== null && "getStreamId" in entry ? [entry as StaffCommand] : [];
}

/** Commands about one clinic, which operators can also run over HTTP. */
export const clinicCommands = otherCommands.filter(({ permission }) => permission !== undefined);

/** All commands of operators and staff, in the order of the help text. */
export const staffCommands: readonly StaffCommand[] = [
  ...otherCommands,
  ...declareOperatorCommands(new Set(clinicCommands.map(({ name }) => name))),
];
