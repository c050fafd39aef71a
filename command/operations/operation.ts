import type { Aggregate, Decision } from "../../shared/domain/aggregate.ts";
import {
  type Clinic,
  clinicAggregate,
  refuseSandbox,
  restrictToOpenClinic,
} from "../../shared/domain/clinic/clinic.ts";
import { DomainError } from "../../shared/domain/domain-error.ts";
import type { categories } from "../../shared/domain/events/catalog.ts";
import type { Category, EventOf } from "../../shared/domain/events/category.ts";
import { requireExisting, requireOwnedBy } from "../../shared/domain/preconditions.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { type CommandContext, type Handled, handle, load } from "../handling/handle.ts";
import { withSandbox } from "./sandbox-operations.ts";

/** Categories that a sandbox takes only from its fixture. */
const ofFixture = new Set(["service", "customer", "animal", "resource", "hold", "queueTicket"]);

/** Runs a command: reads what it needs from other streams, then loads, decides and appends. */
export type Operation<Command, State> = (
  log: EventLog,
  command: Command,
  context: CommandContext,
) => Promise<Handled<State>>;

/**
 * Creates the operation of a command about an object of a clinic. It throws {@link DomainError} if the clinic does
 * not exist or is closed, if a referenced object does not belong to the clinic, or if the decision refuses.
 *
 * @param idOf returns the id of the aggregate that the command changes
 * @param decide pure; receives the current clinic and the time in milliseconds since 1970
 * @param check refuses references to objects of other clinics
 */
export function clinicOperation<
  C extends (typeof categories)[number],
  State,
  Command extends { clinicId: string },
>(
  aggregate: Aggregate<C, State>,
  idOf: (command: Command) => string,
  decide: (command: Command, clinic: Clinic, now: number) => Decision<State, EventOf<C>>,
  check?: (log: EventLog, command: Command, clinic: Clinic) => Promise<unknown>,
): Operation<Command, State> {
  return async (log, command, context) => {
    const { clinic, context: ofClinic } = await loadClinicOf(log, command.clinicId, context);
    if (ofFixture.has(aggregate.category.name)) refuseSandbox(clinic);
    await check?.(log, command, clinic);
    const decideOpen = restrictToOpenClinic(clinic, decide(command, clinic, context.now));
    return handle(log, aggregate, idOf(command), decideOpen, ofClinic);
  };
}

/**
 * Loads the clinic of a command, and adds the clinic and its environment to the context.
 *
 * @throws {DomainError} `clinic_not_found`
 */
export async function loadClinicOf(
  log: EventLog,
  clinicId: string,
  context: CommandContext,
): Promise<{ clinic: Clinic; context: CommandContext }> {
  const { state } = await load(log, clinicAggregate, clinicId);
  const clinic = requireExisting(state, "clinic");
  const ofClinic = { ...context, clinicId, environment: clinic.environment };
  return { clinic: (await withSandbox(log, clinic)).clinic, context: ofClinic };
}

/** Loads an object that a command refers to. Throws as {@link requireOwnedBy} does. */
export async function loadOwnedBy<C extends Category, State extends { clinicId: string }>(
  log: EventLog,
  aggregate: Aggregate<C, State>,
  id: string,
  clinicId: string,
  what: string,
): Promise<State> {
  const { state } = await load(log, aggregate, id);
  return requireOwnedBy(clinicId, state, what);
}
