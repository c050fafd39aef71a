import { randomUUID } from "node:crypto";
import type { Aggregate, Decision } from "../../shared/domain/aggregate.ts";
import type { CatalogEvent } from "../../shared/domain/events/catalog.ts";
import { type Category, type EventOf, toStreamName } from "../../shared/domain/events/category.ts";
import type { Environment } from "../../shared/domain/events/fields.ts";
import type { Actor, NewEventMetadata } from "../../shared/domain/events/metadata.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { EMPTY_STREAM, type EventLog, type NewEvent, type RecordedEvent } from "../../shared/eventstore/log.ts";
import { type BatchDecision, type ChangeOutcome, changeOnce, changeStream } from "./change-stream.ts";

/** Actor, time and cause of a command, for the metadata of the command's events. */
export interface CommandContext {
  actor: Actor;
  /** Clinic that the command concerns; null for a command outside all clinics. */
  clinicId: string | null;
  /** Environment of the clinic or application; null if unknown. */
  environment: Environment | null;
  correlationId: string;
  /** Id of the request or event that caused the command. */
  causationId: string;
  /** Time of the command. Milliseconds since 1970. */
  now: number;
}

/** State of an aggregate, folded from its stream. */
export interface LoadedAggregate<State> {
  /** Undefined if the stream does not exist. */
  state: State | undefined;
  /** Revision of the last event; `EMPTY_STREAM` if the stream does not exist. */
  revision: bigint;
  events: RecordedEvent[];
}

/** Result of a command that was not refused. */
export interface CommandResult<State> {
  /** State after the command. */
  state: State | undefined;
  /** Events of the command; empty if the command changed nothing. */
  events: CatalogEvent[];
  /**
   * Log position of the last event that was appended together with the command's events; undefined if the command
   * changed nothing.
   */
  position: bigint | undefined;
  /**
   * Log position of the stream's last event; undefined if the stream is empty. Read models that have reached this
   * position reflect the state.
   */
  statePosition: bigint | undefined;
}

/** Reads the stream of an aggregate and folds its events. */
export async function loadAggregate<C extends Category, State>(
  log: EventLog,
  aggregate: Aggregate<C, State>,
  id: string,
): Promise<LoadedAggregate<State>> {
  const events = await log.read<RecordedEvent & EventOf<C>>(toStreamName(aggregate.category, id));
  const state = events.reduce<State | undefined>((state, event) => aggregate.evolve(state, event), undefined);
  return { state, revision: events.at(-1)?.revision ?? EMPTY_STREAM, events };
}

/** A command that waits for its decision. */
interface PendingCommand<C extends Category, State> {
  decide: Decision<State, EventOf<C>>;
  context: CommandContext;
}

/**
 * Handles a command: loads the aggregate, decides, and appends the events if the stream has not changed since. If
 * another writer appends first, the command is decided again on the new state, unless `onConflict` is `throw`.
 *
 * @param decide pure; returns the events, none if the command changes nothing; throws {DomainError} if a rule refuses
 *   the command
 * @param options.onConflict `retry` (default, up to 10 seconds) or `throw`
 * @throws {WrongExpectedRevisionError} if another writer appended first; nothing was appended
 */
export function handle<C extends Category, State>(
  log: EventLog,
  aggregate: Aggregate<C, State>,
  id: string,
  decide: Decision<State, EventOf<C>>,
  context: CommandContext,
  options: { onConflict?: "retry" | "throw" } = {},
): Promise<CommandResult<State>> {
  const change = options.onConflict === "throw" ? changeOnce : changeStream;
  return change(log, toStreamName(aggregate.category, id), { decide, context }, (commands) =>
    decideAll(log, aggregate, id, commands),
  );
}

/** Decides commands in order, each on the state after the previous command. */
async function decideAll<C extends Category, State>(
  log: EventLog,
  aggregate: Aggregate<C, State>,
  id: string,
  commands: PendingCommand<C, State>[],
): Promise<BatchDecision<CommandResult<State>>> {
  const loaded = await loadAggregate(log, aggregate, id);
  let { state } = loaded;
  const decided = commands.map(
    ({ decide, context }): ChangeOutcome<{ state: State | undefined; events: CatalogEvent[] }> => {
      try {
        const events = decide(state) as (EventOf<C> & CatalogEvent)[];
        const metadata = toMetadata(context);
        state = events.reduce<State | undefined>(
          (before, event) => aggregate.evolve(before, { ...event, metadata }),
          state,
        );
        return { result: { state, events } };
      } catch (error) {
        return { error };
      }
    },
  );
  const events = decided.flatMap((outcome, index) =>
    "error" in outcome
      ? []
      : outcome.result.events.map((event) => toNewEvent(event, commands[index]?.context as CommandContext)),
  );
  return {
    revision: loaded.revision,
    events,
    toOutcomes: (lastPosition) =>
      decided.map((outcome) => {
        if ("error" in outcome) return outcome;
        const statePosition = lastPosition ?? loaded.events.at(-1)?.position;
        const position = outcome.result.events.length > 0 ? lastPosition : undefined;
        return { result: { ...outcome.result, position, statePosition } };
      }),
  };
}

/** Returns the metadata of the events of a command. */
export function toMetadata(context: CommandContext): NewEventMetadata {
  return {
    $correlationId: context.correlationId,
    $causationId: context.causationId,
    actor: context.actor,
    clinicId: context.clinicId,
    environment: context.environment,
    occurredAt: toInstant(context.now),
  };
}

/** Creates an event to append, with a new id and the metadata of its command. */
export function toNewEvent(event: CatalogEvent, context: CommandContext): NewEvent {
  return { id: randomUUID(), event, metadata: toMetadata(context) };
}
