import type { Decision } from "../../shared/domain/aggregate.ts";
import {
  type Clinic,
  clinicAggregate,
  decideChangeSubscription,
  decideCloseClinic,
  decideOpenBranch,
  decideRegisterClinic,
  decideReinstateClinic,
  decideSetEntitlement,
  decideSuspendClinic,
} from "../../shared/domain/clinic/clinic.ts";
import type { ClinicEvent } from "../../shared/domain/events/clinic.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { type CommandContext, type Handled, handle, load } from "../handling/handle.ts";

type Decide<Command> = (command: Command) => Decision<Clinic, ClinicEvent>;

/**
 * Creates the operation of a command about a clinic itself. The clinic is loaded first for the environment in the
 * metadata.
 */
function operation<Command extends { clinicId: string }>(decide: Decide<Command>) {
  return async (log: EventLog, command: Command, context: CommandContext): Promise<Handled<Clinic>> => {
    const { clinicId } = command;
    const { state } = await load(log, clinicAggregate, clinicId);
    const ofClinic = { ...context, clinicId, environment: state?.environment ?? null };
    return handle(log, clinicAggregate, clinicId, decide(command), ofClinic);
  };
}

/** Registers a clinic. Time zones, currencies and locales unknown to Intl are refused. */
export async function registerClinic(
  log: EventLog,
  command: Parameters<typeof decideRegisterClinic>[0],
  context: CommandContext,
): Promise<Handled<Clinic>> {
  const { clinicId, environment } = command;
  const ofClinic = { ...context, clinicId, environment };
  return handle(log, clinicAggregate, clinicId, decideRegisterClinic(command), ofClinic);
}

export const suspendClinic = operation(decideSuspendClinic);
export const reinstateClinic = operation(decideReinstateClinic);
export const closeClinic = operation(decideCloseClinic);
export const openBranch = operation(decideOpenBranch);
export const changeSubscription = operation(decideChangeSubscription);
export const setEntitlement = operation(decideSetEntitlement);
