import { randomUUID } from "node:crypto";
import type { Aggregate, Decision } from "../../shared/domain/aggregate.ts";
import type { CatalogEvent } from "../../shared/domain/events/catalog.ts";
import { type Category, type EventOf, streamName } from "../../shared/domain/events/category.ts";
import type { Environment } from "../../shared/domain/events/fields.ts";
import type { Actor, NewEventMetadata } from "../../shared/domain/events/metadata.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import {
  EMPTY_STREAM,
  type EventLog,
  type NewEvent,
  type RecordedEvent,
} from "../../shared/eventstore/log.ts";
import { type ChangeOutcome, changeOnce, changeStream, type Plan } from "./change-stream.ts";

/** Who asks for a change, when, and on whose behalf: becomes the metadata of the events. */
export interface CommandContext {
  actor: Actor;
  clinicId: string | null;
  environment: Environment | null;
  correlationId: string;
  /** The id of what caused it: a request or an event. */
  causationId: string;
  /** Milliseconds since 1970. */
  now: number;
}

export interface Loaded<State> {
  state: State | undefined;
  /** Of the last event; -1n where there is none. */
  revision: bigint;
  events: RecordedEvent[];
}

export interface Handled<State> {
  state: State | undefined;
  events: CatalogEvent[];
  /** Log position by which all of the events are in the log; undefined if there are none. */
  position: bigint | undefined;
  /** Log position that a read must have reached to know the state; undefined if there is no stream. */
  seen: bigint | undefined;
}

/** Reads an aggregate's stream and folds it. */
export async function load<C extends Category, State>(
  log: EventLog,
  aggregate: Aggregate<C, State>,
  id: string,
): Promise<Loaded<State>> {
  const events = await log.read<RecordedEvent & EventOf<C>>(streamName(aggregate.category, id));
  const state = events.reduce<State | undefined>((state, event) => aggregate.evolve(state, event), undefined);
  return { state, revision: events.at(-1)?.revision ?? EMPTY_STREAM, events };
}

/** One command: what it decides, and who gives it. */
interface Command<C extends Category, State> {
  decide: Decision<State, EventOf<C>>;
  context: CommandContext;
}

/**
 * Loads an aggregate, decides, and appends, on the condition that the stream is as it was loaded. If somebody else was
 * first, the command is decided again on the new state, unless the caller takes a lost race for an error.
 *
 * @param decide pure; returns the events, none if there is nothing to do; throws {DomainError} if the rules say no
 * @param options.onLostRace `retry` (default, for ten seconds) or `throw`
 * @throws {WrongExpectedRevision} if the race is lost for good; nothing was appended
 */
export function handle<C extends Category, State>(
  log: EventLog,
  aggregate: Aggregate<C, State>,
  id: string,
  decide: Decision<State, EventOf<C>>,
  context: CommandContext,
  options: { onLostRace?: "retry" | "throw" } = {},
): Promise<Handled<State>> {
  const stream = streamName(aggregate.category, id);
  const plan = (commands: Command<C, State>[]) => decideAll(log, aggregate, id, commands);
  const command = { decide, context };
  if (options.onLostRace === "throw") return changeOnce(log, stream, command, plan);
  return changeStream(log, stream, command, plan);
}

/** Decides commands one after the other, each on the state that the ones before it leave. */
async function decideAll<C extends Category, State>(
  log: EventLog,
  aggregate: Aggregate<C, State>,
  id: string,
  commands: Command<C, State>[],
): Promise<Plan<Handled<State>>> {
  const loaded = await load(log, aggregate, id);
  let { state } = loaded;
  const decided = commands.map(
    ({ decide, context }): ChangeOutcome<Omit<Handled<State>, "seen" | "position">> => {
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
      : outcome.result.events.map((event) => toNewEvent(event, commands[index] as Command<C, State>)),
  );
  return {
    revision: loaded.revision,
    events,
    outcomes: (position) =>
      decided.map((outcome) => {
        if ("error" in outcome) return outcome;
        const seen = position ?? loaded.events.at(-1)?.position;
        const own = outcome.result.events.length > 0 ? position : undefined;
        return { result: { ...outcome.result, position: own, seen } };
      }),
  };
}

/** The metadata of events that a command leads to. */
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

/** An event to append, with an id of its own and the metadata of the command that leads to it. */
export function toNewEvent(event: CatalogEvent, { context }: { context: CommandContext }): NewEvent {
  return { id: randomUUID(), event, metadata: toMetadata(context) };
}
