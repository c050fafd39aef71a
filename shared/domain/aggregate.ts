import type { Category, EventOf } from "./events/category.ts";
import type { NewEventMetadata } from "./events/metadata.ts";
import type { Person } from "./personal-data/person.ts";

/** An aggregate type: the category of the streams, and the function that folds the events of a stream into a state. */
export interface Aggregate<C extends Category, State> {
  category: C;
  /** Returns the state after the next event. The state is undefined before the first event. */
  evolve(state: State | undefined, event: EventOf<C> & { metadata: NewEventMetadata }): State | undefined;
  /**
   * Returns the person whose personal data the events contain. The state is the one after the event. Required if an
   * event of the category has personal fields.
   */
  personOf?(state: State): Person;
}

/**
 * Decides a command, based on the current state. Returns the events to append, or an empty array if the command changes
 * nothing.
 *
 * @throws {DomainError} if a rule refuses the command
 */
export type Decision<State, Event> = (state: State | undefined) => Event[];
