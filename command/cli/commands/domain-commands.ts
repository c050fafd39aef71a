import type { DomainCommand } from "../domain-command.ts";
import { animalLinkCommands } from "./animal-link-commands.ts";
import { appointmentCommands } from "./appointment-commands.ts";
import { auditorCommands } from "./auditor-commands.ts";
import { catalogCommands } from "./catalog-commands.ts";
import { clinicCommands } from "./clinic-commands.ts";
import { animalCommands, customerCommands } from "./customer-commands.ts";
import { endpointCommands } from "./endpoint-commands.ts";
import { frontDeskCommands } from "./front-desk-commands.ts";
import { installationCommands } from "./installation-commands.ts";
import { partnerCommands } from "./partner-commands.ts";
import { peopleCommands } from "./people-commands.ts";
import { retentionCommands } from "./retention-commands.ts";

/** All commands that append events to one stream, in the order of the help text. */
export const domainCommands: DomainCommand[] = [
  ...clinicCommands,
  ...peopleCommands,
  ...customerCommands,
  ...animalCommands,
  ...animalLinkCommands,
  ...catalogCommands,
  ...appointmentCommands,
  ...frontDeskCommands,
  ...partnerCommands,
  ...installationCommands,
  ...endpointCommands,
  ...auditorCommands,
  ...retentionCommands,
];
