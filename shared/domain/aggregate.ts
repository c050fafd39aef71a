import type { z } from "zod";
import type { Category, EventOf } from "./events/category.ts";
import type { NewEventMetadata } from "./events/metadata.ts";
import type { Person } from "./personal-data/person.ts";
import { requireOwnedBy } from "./preconditions.ts";
import type { Instant } from "./time/rfc3339.ts";

/** An aggregate type: the category of the streams, and the function that folds the events of a stream into a state. */
export interface Aggregate<C extends Category, State> {
  category: C;
  /** Returns the state after the next event. The state is undefined before the first event. */
  evolve(state: State | undefined, event: EventOf<C> & { metadata: NewEventMetadata }): State | undefined;
  /**
   * Returns the person whose personal data the events contain. Receives the state after the event. Required if an event
   * of the category has personal fields.
   */
  personOf?(state: State): Person;
  /**
   * Returns a summary: an event that contains the whole state, without personal data. Commands append it after
   * {@link SUMMARY_INTERVAL} changes. Later commands read the stream only from the summary on. Required for categories
   * whose `bound` is `summaries`. Omit it if commands need earlier events: the first event of an appointment answers a
   * repeated request.
   */
  summarize?(state: State): EventOf<C>;
}

/**
 * Number of events after which a stream gets a summary. Smaller than the page size of reads, so that each page contains
 * a summary.
 */
export const SUMMARY_INTERVAL = 50;

/**
 * Decides a command, based on the current state. Returns the events to append, or an empty array if the command changes
 * nothing.
 *
 * @throws {DomainError} if a rule refuses the command
 */
export type Decision<State, Event> = (state: State | undefined) => Event[];

type TypeOf<C extends Category> = keyof C["events"] & string;

/** Function that returns the new state, or the changed members of the state, after an event. */
type Evolve<C extends Category, Type extends TypeOf<C>, State, Result> = (
  data: z.output<C["events"][Type]>,
  state: State,
  occurredAt: Instant,
) => Result;

/**
 * Defines an aggregate by a function for each type of event.
 *
 * @param creating functions for the types of events that create the state or replace it as a whole
 * @param changing functions for the other types of events, which return the changed members of the state. These events
 *   have no effect before the state exists
 */
export function defineAggregate<C extends Category, State, Creating extends TypeOf<C>>(
  category: C,
  creating: { [Type in Creating]: Evolve<C, Type, NoInfer<State> | undefined, NoInfer<State>> },
  changing: { [Type in Exclude<TypeOf<C>, Creating>]: Evolve<C, Type, NoInfer<State>, Partial<NoInfer<State>>> },
  further: Pick<Aggregate<C, NoInfer<State>>, "personOf" | "summarize"> = {},
): Aggregate<C, State> {
  type Functions<Former, Result> = Record<string, ((data: unknown, state: Former, at: Instant) => Result) | undefined>;
  const creations = creating as Functions<State | undefined, State>;
  const changes = changing as Functions<State, Partial<State>>;
  return {
    category,
    evolve(state, { type, data, metadata: { occurredAt } }) {
      const created = creations[type]?.(data, state, occurredAt);
      return created ?? (state && { ...state, ...changes[type]?.(data, state, occurredAt) });
    },
    ...further,
  };
}

/**
 * Returns a function that creates deciders for an aggregate. Such a decider records one event of a given type, or none
 * if nothing changes. The decider copies the values of the command that are fields of the event.
 *
 * @param requireState returns the state to which the command applies, or throws a {@link DomainError}
 */
export function createRecorder<C extends Category, State, Required, Reference = unknown>(
  { category }: Aggregate<C, State>,
  requireState: (state: State | undefined, values: Reference) => Required,
) {
  /** @param isChange returns false if the event would change nothing, so that it is not recorded */
  return <Type extends TypeOf<C>>(
    type: Type,
    isChange: (state: Required, data: z.output<C["events"][Type]>) => boolean,
  ) =>
    (values: z.output<C["events"][Type]> & Reference): Decision<State, EventOf<C>> =>
    (state) => {
      const { shape } = category.events[type] as unknown as z.ZodObject;
      const data = Object.fromEntries(Object.entries(values as object).filter(([name]) => name in shape));
      const event = { type, data } as unknown as EventOf<C>;
      return isChange(requireState(state, values), event.data as z.output<C["events"][Type]>) ? [event] : [];
    };
}

/**
 * Variant of {@link createRecorder}. The deciders throw `<objectName>_not_found` unless the aggregate belongs to the
 * command's clinic.
 *
 * @param objectName name of the aggregate in snake_case
 */
export function createClinicRecorder<C extends Category, State extends { clinicId: string }>(
  aggregate: Aggregate<C, State>,
  objectName: string,
) {
  const requireOwned = (state: State | undefined, { clinicId }: { clinicId: string }) =>
    requireOwnedBy(clinicId, state, objectName);
  return createRecorder(aggregate, requireOwned);
}
