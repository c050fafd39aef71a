import { randomUUID } from "node:crypto";
import type { Aggregate, Decision } from "../../shared/domain/aggregate.ts";
import type { CatalogEvent } from "../../shared/domain/events/catalog.ts";
import { type Category, type EventOf, toStreamName } from "../../shared/domain/events/category.ts";
import type { Environment } from "../../shared/domain/events/fields.ts";
import type { Actor, NewEventMetadata } from "../../shared/domain/events/metadata.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { EMPTY_STREAM, type EventLog, type NewEvent, type RecordedEvent } from "../../shared/eventstore/log.ts";
import { type BatchDecision, type ChangeOutcome, changeStream, changeStreamOnce } from "./change-stream.ts";
import { requireKnownPersonalData } from "./require-known-personal-data.ts";

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
  /** W3C trace context of the request, if it is traced. */
  traceparent?: string | undefined;
}

/** State of an aggregate, folded from its stream. */
export interface LoadedAggregate<State> {
  /** Undefined if the stream does not exist. */
  state: State | undefined;
  /** State after the first event of the stream; undefined if the stream does not exist. */
  initialState: State | undefined;
  /** Revision of the last event; `EMPTY_STREAM` if the stream does not exist. */
  revision: bigint;
  /** Log position of the last event; undefined if the stream does not exist. */
  position: bigint | undefined;
  /** True if the state has neutral values instead of personal data, because a data key is missing. */
  isKeyMissing: boolean;
}

/** Result of a command that was not refused. */
export interface CommandResult<State> {
  /** State after the command. */
  state: State | undefined;
  /** State after the first event of the stream; undefined if the stream is empty. */
  initialState: State | undefined;
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
  const loadedAggregate: LoadedAggregate<State> = { ...NEW_AGGREGATE };
  for (const event of events) {
    loadedAggregate.state = aggregate.evolve(loadedAggregate.state, event);
    loadedAggregate.initialState ??= loadedAggregate.state;
    loadedAggregate.revision = event.revision;
    loadedAggregate.position = event.position;
    if (event.isKeyMissing) loadedAggregate.isKeyMissing = true;
  }
  return loadedAggregate;
}

/** An aggregate whose stream does not exist. */
const NEW_AGGREGATE = {
  ...{ state: undefined, initialState: undefined },
  ...{ revision: EMPTY_STREAM, position: undefined, isKeyMissing: false },
};

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
 * @param options.isExpectedNew if true, the stream is first assumed not to exist, which saves a read if the assumption
 *   is right
 * @throws {WrongExpectedRevisionError} if another writer appended first; nothing was appended
 */
export function handle<C extends Category, State>(
  log: EventLog,
  aggregate: Aggregate<C, State>,
  id: string,
  decide: Decision<State, EventOf<C>>,
  context: CommandContext,
  options: { onConflict?: "retry" | "throw"; isExpectedNew?: boolean } = {},
): Promise<CommandResult<State>> {
  const applyChange = options.onConflict === "throw" ? changeStreamOnce : changeStream;
  return applyChange(log, toStreamName(aggregate.category, id), { decide, context }, async (commands, attempt) => {
    if (options.isExpectedNew && attempt === 0) {
      const decision = decideCommands(aggregate, NEW_AGGREGATE, commands);
      // Only an append verifies the assumption. A refusal needs the state of the stream.
      if (decision.events.length > 0 && !decision.hasRefusals) return { ...decision, isRevisionAssumed: true };
    }
    return decideCommands(aggregate, await loadAggregate(log, aggregate, id), commands);
  });
}

/** Decides commands in order. Each decision uses the state after the previous command. */
function decideCommands<C extends Category, State>(
  aggregate: Aggregate<C, State>,
  loadedAggregate: LoadedAggregate<State>,
  commands: PendingCommand<C, State>[],
): BatchDecision<CommandResult<State>> & { hasRefusals: boolean } {
  let { state, initialState } = loadedAggregate;
  const newEvents: NewEvent[] = [];
  const outcomes = commands.map(
    ({ decide, context }): ChangeOutcome<Pick<CommandResult<State>, "state" | "initialState" | "events">> => {
      try {
        const events = decide(state) as (EventOf<C> & CatalogEvent)[];
        if (loadedAggregate.isKeyMissing) requireKnownPersonalData(events);
        const newEventsOfCommand = events.map((event) => {
          const newEvent = toNewEvent(event, context);
          state = aggregate.evolve(state, { ...event, metadata: newEvent.metadata });
          initialState ??= state;
          return { ...newEvent, person: state && aggregate.personOf?.(state) };
        });
        newEvents.push(...newEventsOfCommand);
        return { result: { state, initialState, events } };
      } catch (error) {
        return { error };
      }
    },
  );
  return {
    revision: loadedAggregate.revision,
    events: newEvents,
    hasRefusals: outcomes.some((outcome) => "error" in outcome),
    toOutcomes: (lastPosition) =>
      outcomes.map((outcome) => {
        if ("error" in outcome) return outcome;
        const statePosition = lastPosition ?? loadedAggregate.position;
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
    ...(context.traceparent !== undefined && { traceparent: context.traceparent }),
  };
}

/** Creates an event to append, with a new id and the metadata of its command. */
export function toNewEvent(event: CatalogEvent, context: CommandContext): NewEvent {
  return { id: randomUUID(), event, metadata: toMetadata(context) };
}
