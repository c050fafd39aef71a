import type { Aggregate } from "../../shared/domain/aggregate.ts";
import { type Clinic, clinicAggregate } from "../../shared/domain/clinic/clinic.ts";
import { owned } from "../../shared/domain/clinic/owned.ts";
import { DomainError } from "../../shared/domain/domain-error.ts";
import type { Category } from "../../shared/domain/events/category.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { type CommandContext, load } from "../handling/handle.ts";
import { withSandbox } from "./sandbox.ts";

/**
 * The clinic that a command is about, and the command's context with that clinic and its environment in it.
 *
 * @throws {DomainError} `clinic_not_found`
 */
export async function inClinic(
  log: EventLog,
  clinicId: string,
  context: CommandContext,
): Promise<{ clinic: Clinic; context: CommandContext }> {
  const { state: clinic } = await load(log, clinicAggregate, clinicId);
  if (!clinic) throw new DomainError("clinic_not_found", "there is no such clinic");
  const ofClinic = { ...context, clinicId, environment: clinic.environment };
  return { clinic: (await withSandbox(log, clinic)).clinic, context: ofClinic };
}

/** Loads what a command refers to by id, and refuses it as {@link owned} does. */
export async function loadOwned<C extends Category, State extends { clinicId: string }>(
  log: EventLog,
  aggregate: Aggregate<C, State>,
  id: string,
  clinicId: string,
  what: string,
): Promise<State> {
  const { state } = await load(log, aggregate, id);
  return owned(state, clinicId, what);
}
