import { randomUUID } from "node:crypto";
import { type Category, type EventOf, streamName } from "../shared/events/category.ts";
import type { Environment } from "../shared/events/fields.ts";
import type { Actor, NewEventMetadata } from "../shared/events/metadata.ts";
import type { CatalogEvent, categories } from "../shared/events/registry.ts";
import { type EventLog, type RecordedEvent, WrongExpectedRevision } from "../shared/eventstore/log.ts";
import { backoff } from "../shared/runtime/backoff.ts";
import { toInstant } from "../shared/time/rfc3339.ts";

type CatalogCategory = (typeof categories)[number];

/** An aggregate: its category of streams, and how its state follows from its events. Pure. */
export interface Aggregate<C extends CatalogCategory, State> {
  category: C;
  /** State before the first event is undefined. */
  evolve(state: State | undefined, event: EventOf<C> & { metadata: NewEventMetadata }): State | undefined;
}

/** A rule of the domain says no. The code is stable, in snake_case, and may be shown to the caller. */
export class DomainError extends Error {
  override readonly name = "DomainError";
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

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
  /** Where the last event stands in the log; undefined where nothing was appended. */
  position: bigint | undefined;
  /** Where a read must have come to in the log to know the state; undefined where there is no stream. */
  seen: bigint | undefined;
}

/** A race that is lost this often in a row is given up, after about a second. */
const ATTEMPTS = 15;

/** Those who lost a race together must not run the next one together. Milliseconds. */
const BEFORE_NEXT = { first: 5, most: 100 };

/** Reads an aggregate's stream and folds it. */
export async function load<C extends CatalogCategory, State>(
  log: EventLog,
  aggregate: Aggregate<C, State>,
  id: string,
): Promise<Loaded<State>> {
  const events = await log.read<RecordedEvent & EventOf<C>>(streamName(aggregate.category as Category, id));
  const state = events.reduce<State | undefined>((state, event) => aggregate.evolve(state, event), undefined);
  return { state, revision: events.at(-1)?.revision ?? -1n, events };
}

/**
 * Load → decide → append, for every aggregate. The append expects the revision that was loaded; where somebody else
 * was first, the decision is taken anew on the new state, unless the caller wants a lost race to be an error.
 *
 * @param decide pure; returns the events, none where there is nothing to do; throws {DomainError} where the rules say no
 * @param options.onLostRace `retry` (default) or `throw` ({@link WrongExpectedRevision})
 */
export async function handle<C extends CatalogCategory, State>(
  log: EventLog,
  aggregate: Aggregate<C, State>,
  id: string,
  decide: (state: State | undefined) => EventOf<C>[],
  context: CommandContext,
  options: { onLostRace?: "retry" | "throw" } = {},
): Promise<Handled<State>> {
  const wait = backoff(BEFORE_NEXT);
  for (let attempt = 1; ; attempt += 1) {
    const { state, revision, events: known } = await load(log, aggregate, id);
    const events = decide(state) as (EventOf<C> & CatalogEvent)[];
    if (events.length === 0) return { state, events, position: undefined, seen: known.at(-1)?.position };
    const metadata = toMetadata(context);
    try {
      const stream = streamName(aggregate.category as Category, id);
      const proposed = events.map((event) => ({ id: randomUUID(), event, metadata }));
      const position = await log.append(stream, revision, proposed);
      const after = events.reduce<State | undefined>(
        (state, event) => aggregate.evolve(state, { ...event, metadata }),
        state,
      );
      return { state: after, events, position, seen: position };
    } catch (error) {
      const lost = error instanceof WrongExpectedRevision;
      if (!lost || options.onLostRace === "throw" || attempt === ATTEMPTS) throw error;
    }
    await wait.next(new AbortController().signal);
  }
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
