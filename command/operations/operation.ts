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
import type { Sandbox } from "../../shared/domain/partner/sandbox.ts";
import { type ErasedData, requireNotErased } from "../../shared/domain/personal-data/erasure.ts";
import { requireExisting, requireOwnedBy } from "../../shared/domain/preconditions.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { concernsOneStream } from "../../shared/eventstore/stream-failure.ts";
import { type CommandContext, type CommandResult, handle, loadAggregate } from "../handling/handle.ts";
import { createReservingLog } from "../scheduling/reserving-log.ts";
import { resolveSandbox } from "./sandbox-operations.ts";

/** Sandbox aggregates of these categories come only from the fixture. Commands cannot change these aggregates. */
const FIXTURE_CATEGORIES = new Set(["service", "customer", "animal", "resource", "hold", "queueTicket"]);

/** Runs a command: loads the aggregates that the decision needs, decides, and appends the events. */
export type Operation<Command, State> = (
  log: EventLog,
  command: Command,
  context: CommandContext,
) => Promise<CommandResult<State>>;

/** Loads aggregates to which a command refers. */
export interface References {
  /**
   * Loads an aggregate, which may belong to another clinic. Returns undefined without an id, or if nothing has the id.
   */
  find<C extends Category, State>(
    aggregate: Aggregate<C, State>,
    id: string | null | undefined,
  ): Promise<State | undefined>;
  /**
   * Loads an aggregate of the command's clinic.
   *
   * @param objectName name of the object in snake_case, for the error; default: name of the category
   * @throws {DomainError} `<objectName>_not_found` if the object does not exist or belongs to another clinic;
   *   `<objectName>_erased` if its personal data is erased
   */
  require<C extends Category, State extends { clinicId: string } & Partial<ErasedData>>(
    aggregate: Aggregate<C, State>,
    id: string,
    objectName?: string,
  ): Promise<State>;
}

/** Declares how a command about an object of a clinic is checked and decided. */
export interface ClinicOperation<C extends Category, State, Values, Found, Closed extends boolean> {
  /**
   * True if the command must work although the clinic is closed or unreadable, because it ends access, or because its
   * decider itself checks the clinic's status. `decide` then receives no clinic.
   */
  isAllowedWhenClosed?: Closed;
  /** Returns the id of the stream; default: the result of the category's `getStreamId` for the values. */
  streamId?(values: Values): string;
  /** Loads the objects that the decision needs. */
  refers?(values: Values, references: References): Promise<Found>;
  /** Pure. Receives the time in milliseconds since 1970, and what `refers` has returned. */
  decide(
    values: Values,
    clinic: Closed extends true ? undefined : Clinic,
    now: number,
    found: Found,
  ): Decision<State, EventOf<C>>;
  /** Returns the time of the events, in milliseconds since 1970; default: the time of the command. */
  occurredAt?(values: Values, now: number): number;
  /**
   * Returns true if the command may exceed a resource's capacity. If the context has `overbooks`, every command may.
   */
  overbooks?(values: Values): boolean;
}

/**
 * Defines the operation of a command about an object of a clinic. The operation throws {@link DomainError} if the
 * clinic does not exist or is closed, if a referenced object does not belong to the clinic, if `decide` refuses the
 * command, or if a resource has no free place.
 */
export function defineClinicOperation<
  C extends (typeof categories)[number],
  State,
  Values extends { clinicId: string },
  Found = undefined,
  Closed extends boolean = false,
>(
  aggregate: Aggregate<C, State>,
  operation: ClinicOperation<C, State, Values, Found, Closed>,
): Operation<Values, State> {
  const { isAllowedWhenClosed, streamId, refers, decide, occurredAt } = operation;
  return async (log, values, context) => {
    const { clinicId } = values;
    const { clinic, sandbox, clinicContext } = isAllowedWhenClosed
      ? { clinic: undefined, sandbox: null, clinicContext: await createClinicContext(log, clinicId, context) }
      : await loadCommandClinic(log, clinicId, context);
    if (clinic && FIXTURE_CATEGORIES.has(aggregate.category.name)) refuseSandbox(clinic);
    // Without a loader, the type of what is found is undefined.
    const found = (await refers?.(values, createReferences(log, clinicId))) as Found;
    const decideChange = decide(values, clinic as Closed extends true ? undefined : Clinic, context.now, found);
    const overbooks = context.overbooks || operation.overbooks?.(values) || false;
    return handle(
      createReservingLog(log, { sandbox, overbooks, context: clinicContext }),
      aggregate,
      streamId?.(values) ?? aggregate.category.getStreamId({ type: "", data: values }),
      clinic ? restrictToOpenClinic(clinic, decideChange) : decideChange,
      { ...clinicContext, now: occurredAt?.(values, context.now) ?? context.now },
    );
  };
}

export function createReferences(log: EventLog, clinicId: string): References {
  return {
    find: (aggregate, id) => loadState(log, aggregate, id ?? null),
    async require(aggregate, id, objectName = aggregate.category.name) {
      const state = requireOwnedBy(clinicId, await loadState(log, aggregate, id), objectName);
      if (state.erasedCategories) requireNotErased(state as ErasedData, objectName);
      return state;
    },
  };
}

/**
 * Loads the clinic of a command, with its sandbox, and adds the clinic to the context.
 *
 * @throws {DomainError} `clinic_not_found`
 */
export async function loadCommandClinic(
  log: EventLog,
  clinicId: string,
  context: CommandContext,
): Promise<{ clinic: Clinic; sandbox: Sandbox | null; clinicContext: CommandContext }> {
  const { state } = await loadAggregate(log, clinicAggregate, clinicId);
  const { clinic, sandbox } = await resolveSandbox(log, requireExisting(state, "clinic"));
  return { clinic, sandbox, clinicContext: { ...context, clinicId, environment: clinic.environment } };
}

/**
 * Creates the context of a command that ends access or erases data. Such a command must work even if the clinic is
 * unreadable or deleted. The context's environment is then null.
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
