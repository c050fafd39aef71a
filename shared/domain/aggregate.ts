import type { Category, EventOf } from "./events/category.ts";
import type { NewEventMetadata } from "./events/metadata.ts";

/** An aggregate: the category of its streams, and the fold of its events into a state. */
export interface Aggregate<C extends Category, State> {
  category: C;
  /** Returns the state after one more event. Before the first event, the state is undefined. */
  evolve(state: State | undefined, event: EventOf<C> & { metadata: NewEventMetadata }): State | undefined;
}

/**
 * Decides a command on the current state. Returns the events to append; none if the command changes nothing.
 *
 * @throws {DomainError} if a rule refuses the command
 */
export type Decision<State, Event> = (state: State | undefined) => Event[];
