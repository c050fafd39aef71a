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
import { concernsOneStream } from "../../shared/eventstore/stream-failure.ts";
import { type CommandContext, type CommandResult, handle, loadAggregate } from "../handling/handle.ts";
import { resolveSandbox } from "./sandbox-operations.ts";

/** Sandbox aggregates of these categories come only from the fixture. Commands cannot change these aggregates. */
const FIXTURE_CATEGORIES = new Set(["service", "customer", "animal", "resource", "hold", "queueTicket"]);

/** Runs a command: loads the aggregates that the decision needs, decides, and appends the events. */
export type Operation<Command, State> = (
  log: EventLog,
  command: Command,
  context: CommandContext,
) => Promise<CommandResult<State>>;

/**
 * Defines the operation of a command about an object of a clinic. The operation throws {@link DomainError} if the
 * clinic does not exist or is closed, if a referenced object does not belong to the clinic, or if `decide` refuses the
 * command.
 *
 * @param idName name of the command's field with the id of the aggregate to change
 * @param decide pure; receives the current clinic, the time in milliseconds since 1970, and the loaded references
 * @param loadReferences loads the objects that the command refers to, and refuses objects of other clinics
 */
export function defineClinicOperation<
  C extends (typeof categories)[number],
  State,
  IdName extends string,
  Command extends { clinicId: string } & Record<IdName, string>,
  References = undefined,
>(
  aggregate: Aggregate<C, State>,
  idName: IdName,
  decide: (command: Command, clinic: Clinic, now: number, references: References) => Decision<State, EventOf<C>>,
  loadReferences?: (log: EventLog, command: Command) => Promise<References>,
): Operation<Command, State> {
  return async (log, command, context) => {
    const { clinic, clinicContext } = await loadCommandClinic(log, command.clinicId, context);
    if (FIXTURE_CATEGORIES.has(aggregate.category.name)) refuseSandbox(clinic);
    // Without a loader, the type of the references is undefined.
    const references = (await loadReferences?.(log, command)) as References;
    const decideForOpenClinic = restrictToOpenClinic(clinic, decide(command, clinic, context.now, references));
    return handle(log, aggregate, command[idName], decideForOpenClinic, clinicContext);
  };
}

/**
 * Loads the clinic of a command.
 *
 * @throws {DomainError} `clinic_not_found`
 */
export async function loadCommandClinic(
  log: EventLog,
  clinicId: string,
  context: CommandContext,
): Promise<{ clinic: Clinic; clinicContext: CommandContext }> {
  const { state } = await loadAggregate(log, clinicAggregate, clinicId);
  const { clinic } = await resolveSandbox(log, requireExisting(state, "clinic"));
  return { clinic, clinicContext: { ...context, clinicId, environment: clinic.environment } };
}

/**
 * Creates the context of a command that ends access or erases data. Such a command must be possible even if the clinic is
 * unreadable or deleted. The environment is then null.
 */
export async function createClinicContext(
  log: EventLog,
  clinicId: string,
  context: CommandContext,
): Promise<CommandContext> {
  const state = await loadState(log, clinicAggregate, clinicId).catch(async (error: unknown) => {
    if (!(await concernsOneStream(log, error))) throw error;
  });
  return { ...context, clinicId, environment: state?.environment ?? null };
}

/** Loads the state of an aggregate that a command may refer to. Returns undefined if the id is null. */
export async function loadState<C extends Category, State>(
  log: EventLog,
  aggregate: Aggregate<C, State>,
  id: string | null,
): Promise<State | undefined> {
  return id === null ? undefined : (await loadAggregate(log, aggregate, id)).state;
}

/**
 * Loads an object that a command refers to.
 *
 * @param objectName name of the object in snake_case, for the error
 * @throws {DomainError} `<objectName>_not_found` if the object does not exist or belongs to another clinic
 */
export async function loadClinicObject<C extends Category, State extends { clinicId: string }>(
  log: EventLog,
  aggregate: Aggregate<C, State>,
  id: string,
  clinicId: string,
  objectName: string,
): Promise<State> {
  const { state } = await loadAggregate(log, aggregate, id);
  return requireOwnedBy(clinicId, state, objectName);
}
