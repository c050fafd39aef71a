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
  /**
   * Returns an event that contains the state. Commands append it after every {@link SUMMARY_INTERVAL} changes, so that
   * the cost of a command does not depend on the number of earlier changes. Required if the category's streams are bound
   * by summaries. A summary must contain no personal data, and hides the first event, from which a repeated request of
   * an appointment is answered.
   */
  summarize?(state: State): EventOf<C>;
}

/** Number of events after which a stream gets a summary. Less than a page of a read, which then contains a summary. */
export const SUMMARY_INTERVAL = 50;

/**
 * Decides a command, based on the current state. Returns the events to append, or an empty array if the command changes
 * nothing.
 *
 * @throws {DomainError} if a rule refuses the command
 */
export type Decision<State, Event> = (state: State | undefined) => Event[];
