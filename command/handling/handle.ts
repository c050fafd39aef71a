import { randomUUID } from "node:crypto";
import { type Aggregate, type Decision, SUMMARY_INTERVAL } from "../../shared/domain/aggregate.ts";
import { DomainError } from "../../shared/domain/domain-error.ts";
import { type CatalogEvent, getCompleteTypes } from "../../shared/domain/events/catalog.ts";
import { type Category, type EventOf, toStreamName } from "../../shared/domain/events/category.ts";
import type { Environment } from "../../shared/domain/events/fields.ts";
import type { Actor, NewEventMetadata } from "../../shared/domain/events/metadata.ts";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import { findPersonalFields } from "../../shared/domain/personal-data/personal-fields.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { EMPTY_STREAM, type EventLog, type NewEvent } from "../../shared/eventstore/log.ts";
import { DataKeyError } from "../../shared/personal-data/data-keys.ts";
import { changeStream } from "./change-stream.ts";

/** Actor, time and cause of a command, for the metadata of the command's events. */
export interface CommandContext {
  actor: Actor;
  /** Clinic that the command concerns; null for a command outside all clinics. */
  clinicId: string | null;
  /** Environment of the clinic or application; null if unknown. */
  environment: Environment | null;
  correlationId: string;
  causationId: string;
  now: number;
  /** HMAC of the request; see `eventMetadata`. */
  requestHash?: string;
  /** If true, appointments and holds may exceed the capacity of a resource. Reservations record the overbooking. */
  overbooks?: boolean;
  /**
   * If true, the command first decides as if its stream did not exist. This saves a read if the stream is indeed new.
   */
  isExpectedNew?: boolean;
  /** W3C trace context of the request, if it is traced. */
  traceparent?: string | undefined;
  /**
   * Aborts when nobody waits for the result any longer, for example after a timeout. The command then stops reading.
   */
  signal?: AbortSignal | undefined;
}

export interface LoadedAggregate<State> {
  state: State | undefined;
  /** State after the first event that was read, which may be a summary; undefined if there is no state. */
  initialState: State | undefined;
  /** Revision of the event that produced `initialState`. */
  initialRevision: bigint;
  /** Revision of the last event; `EMPTY_STREAM` if the stream does not exist. */
  revision: bigint;
  /** Log position of the last event; undefined if the stream does not exist. */
  position: bigint | undefined;
  /** True if the state has neutral values instead of personal data, because a data key is missing. */
  isKeyMissing: boolean;
  /** Number of events after the last event that contains the whole state, such as a summary. */
  eventsSinceComplete: number;
}

export interface CommandResult<State> {
  state: State | undefined;
  initialState: State | undefined;
  /** Revision of the event that produced `initialState`. */
  initialRevision: bigint;
  events: CatalogEvent[];
  /** Log position of the command's last event; undefined if the command changed nothing. */
  position: bigint | undefined;
  /**
   * Log position of the stream's last event; undefined if the stream is empty. Read models that have reached this
   * position reflect the state.
   */
  statePosition: bigint | undefined;
  /** Revision of the stream's last event; `EMPTY_STREAM` if the stream is empty. */
  revision: bigint;
}

export async function loadAggregate<C extends Category, State>(
  log: EventLog,
  aggregate: Aggregate<C, State>,
  id: string,
  signal?: AbortSignal,
): Promise<LoadedAggregate<State>> {
  const stream = toStreamName(aggregate.category, id);
  const events = await log.read<RecordedEvent & EventOf<C>>(stream, undefined, signal);
  const completeTypes = getCompleteTypes(stream);
  const loadedAggregate: LoadedAggregate<State> = { ...NEW_AGGREGATE };
  for (const event of events) {
    loadedAggregate.state = aggregate.evolve(loadedAggregate.state, event);
    if (loadedAggregate.initialState === undefined) {
      loadedAggregate.initialState = loadedAggregate.state;
      loadedAggregate.initialRevision = event.revision;
    }
    loadedAggregate.revision = event.revision;
    loadedAggregate.position = event.position;
    if (event.isKeyMissing) loadedAggregate.isKeyMissing = true;
    loadedAggregate.eventsSinceComplete = completeTypes.includes(event.type)
      ? 0
      : loadedAggregate.eventsSinceComplete + 1;
  }
  return loadedAggregate;
}

const NEW_AGGREGATE = {
  state: undefined,
  initialState: undefined,
  initialRevision: 0n,
  revision: EMPTY_STREAM,
  position: undefined,
  isKeyMissing: false,
  eventsSinceComplete: 0,
};

/**
 * Handles a command: loads the aggregate, decides, and appends the events if the stream has not changed since. If
 * another writer appends first, the command is decided again with the new state, unless `onConflict` is `throw`.
 *
 * @param decide pure; returns the new events, or no events if nothing changes; throws {DomainError} to refuse the
 *   command
 * @param onConflict `retry` (default, up to 10 seconds) or `throw`
 * @throws {WrongExpectedRevisionError} if another writer appended first; nothing was appended
 * @throws {DomainError} `too_many_changes` if the stream has its maximum length; nothing was appended
 */
export function handle<C extends Category, State>(
  log: EventLog,
  aggregate: Aggregate<C, State>,
  id: string,
  decide: Decision<State, EventOf<C>>,
  context: CommandContext,
  onConflict: "retry" | "throw" = "retry",
): Promise<CommandResult<State>> {
  const stream = toStreamName(aggregate.category, id);
  const change = async (attempt: number) => {
    const assumedChange = context.isExpectedNew && attempt === 0 ? decideAsNew(aggregate, decide, context) : undefined;
    const { newEvents, revision, position, ...result } =
      assumedChange ??
      decideChange(aggregate, await loadAggregate(log, aggregate, id, context.signal), decide, context);
    if (newEvents.length === 0) return { ...result, position: undefined, statePosition: position, revision };
    const newPosition = await log.append(stream, revision, newEvents);
    const newRevision = revision + BigInt(newEvents.length);
    return { ...result, position: newPosition, statePosition: newPosition, revision: newRevision };
  };
  return onConflict === "throw" ? change(0) : changeStream(stream, change);
}

/**
 * Decides a command as if the stream did not exist. Returns undefined if the command is refused or changes nothing. The
 * caller must then decide with the real state, because no append will check whether the stream exists.
 */
function decideAsNew<C extends Category, State>(
  aggregate: Aggregate<C, State>,
  decide: Decision<State, EventOf<C>>,
  context: CommandContext,
) {
  try {
    const change = decideChange(aggregate, NEW_AGGREGATE, decide, context);
    return change.newEvents.length > 0 ? change : undefined;
  } catch (error) {
    if (error instanceof DomainError) return undefined;
    throw error;
  }
}

function decideChange<C extends Category, State>(
  aggregate: Aggregate<C, State>,
  loadedAggregate: LoadedAggregate<State>,
  decide: Decision<State, EventOf<C>>,
  context: CommandContext,
) {
  const { revision, position, isKeyMissing, eventsSinceComplete } = loadedAggregate;
  let { state, initialState, initialRevision } = loadedAggregate;
  if (initialState === undefined) initialRevision = revision + 1n;
  const events = decide(state) as (EventOf<C> & CatalogEvent)[];
  if (isKeyMissing) requireKnownPersonalData(events);
  const evolve = (event: EventOf<C> & CatalogEvent): NewEvent => {
    const newEvent = toNewEvent(event, context);
    state = aggregate.evolve(state, { ...event, metadata: newEvent.metadata });
    initialState ??= state;
    return { ...newEvent, person: state && aggregate.personOf?.(state) };
  };
  const newEvents = events.map(evolve);
  const isSummaryDue = events.length > 0 && eventsSinceComplete + events.length >= SUMMARY_INTERVAL;
  if (isSummaryDue && state && aggregate.summarize)
    newEvents.push(evolve(aggregate.summarize(state) as EventOf<C> & CatalogEvent));
  return { state, initialState, initialRevision, events, newEvents, revision, position };
}

/**
 * Refuses events with neutral values, which may stand for personal data that cannot be decrypted. Such an event would
 * hide the earlier data even after the data keys are restored. Events whose personal fields are all null are permitted.
 *
 * @throws {DataKeyError}
 */
function requireKnownPersonalData(events: readonly CatalogEvent[]): void {
  for (const { type, data } of events) {
    const values = data as Record<string, unknown>;
    const fields = findPersonalFields(type)?.fields ?? [];
    const hasText = fields.some(({ name }) => values[name] !== null);
    if (hasText && fields.some(({ name, neutralValue }) => values[name] === neutralValue))
      throw new DataKeyError(
        `${type} cannot be recorded, because the data key of the earlier personal data is missing; restore the data keys from a backup`,
      );
  }
}

export function toMetadata(context: CommandContext): NewEventMetadata {
  return {
    $correlationId: context.correlationId,
    $causationId: context.causationId,
    actor: context.actor,
    clinicId: context.clinicId,
    environment: context.environment,
    occurredAt: toInstant(context.now),
    ...(context.requestHash !== undefined && { requestHash: context.requestHash }),
    ...(context.traceparent !== undefined && { traceparent: context.traceparent }),
  };
}

/** Creates an event to append, with a new id and the metadata of its command. */
export function toNewEvent(event: CatalogEvent, context: CommandContext): NewEvent {
  return { id: randomUUID(), event, metadata: toMetadata(context) };
}
