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

/** Actor, time and origin of a command. It becomes the metadata of the events. */
export interface CommandContext {
  actor: Actor;
  clinicId: string | null;
  environment: Environment | null;
  correlationId: string;
  /** Id of the request or event that caused the command. */
  causationId: string;
  /** Time of the command. Milliseconds since 1970. */
  now: number;
}

export interface Loaded<State> {
  state: State | undefined;
  /** Revision of the last event; `EMPTY_STREAM` if there is none. */
  revision: bigint;
  events: RecordedEvent[];
}

export interface Handled<State> {
  state: State | undefined;
  events: CatalogEvent[];
  /** Log position of the last appended event; undefined if none was appended. */
  position: bigint | undefined;
  /** Log position that a read must have reached to reflect the state; undefined if the stream does not exist. */
  seen: bigint | undefined;
}

/** Reads the stream of an aggregate and folds its events. */
export async function load<C extends Category, State>(
  log: EventLog,
  aggregate: Aggregate<C, State>,
  id: string,
): Promise<Loaded<State>> {
  const events = await log.read<RecordedEvent & EventOf<C>>(streamName(aggregate.category, id));
  const state = events.reduce<State | undefined>((state, event) => aggregate.evolve(state, event), undefined);
  return { state, revision: events.at(-1)?.revision ?? EMPTY_STREAM, events };
}

/** A command: its decision and its context. */
interface Command<C extends Category, State> {
  decide: Decision<State, EventOf<C>>;
  context: CommandContext;
}

/**
 * Handles a command: loads the aggregate, decides, and appends the events if the stream has not changed since. If
 * another writer was first, the command is decided again on the new state, unless the caller chose `throw`.
 *
 * @param decide pure; returns the events, none if there is nothing to change; throws {DomainError} if a rule refuses
 *   the command
 * @param options.onLostRace `retry` (default, up to 10 seconds) or `throw`
 * @throws {WrongExpectedRevisionError} if another writer was first; nothing was appended
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

/** Decides commands in order, each on the state that the previous ones lead to. */
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
export function toNewEvent(event: CatalogEvent, { context }: { context: CommandContext }): NewEvent {
  return { id: randomUUID(), event, metadata: toMetadata(context) };
}
