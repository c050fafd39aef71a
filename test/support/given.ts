import { expect } from "chai";
import type { Aggregate } from "../../shared/domain/aggregate.ts";
import { DomainError } from "../../shared/domain/domain-error.ts";
import type { categories } from "../../shared/domain/events/catalog.ts";
import type { EventOf } from "../../shared/domain/events/category.ts";
import type { EventMetadata } from "../../shared/domain/events/metadata.ts";

type CatalogCategory = (typeof categories)[number];

/** Time of all events in a history. */
export const DEFAULT_EVENT_TIME = "2026-05-04T08:00:00.000Z";

const metadata: EventMetadata = {
  $correlationId: "00000000-0000-4000-8000-00000000000c",
  $causationId: "00000000-0000-4000-8000-00000000000d",
  actor: { type: "operator", id: "test" },
  clinicId: null,
  environment: null,
  schemaVersion: 1,
  occurredAt: DEFAULT_EVENT_TIME,
};

/** Folds a history into the state of an aggregate. */
export function fold<C extends CatalogCategory, State>(
  aggregate: Aggregate<C, State>,
  history: EventOf<C>[],
): State | undefined {
  return history.reduce<State | undefined>(
    (state, event) => aggregate.evolve(state, { ...event, metadata }),
    undefined,
  );
}

interface Given<Event, State> {
  state: State | undefined;
  when(decide: (state: State | undefined) => Event[], outcome: Event[] | string): void;
  /** Expects one event, and no event if the history already contains it. */
  whenOnce(decide: (state: State | undefined) => Event[], event: Event): void;
}

/**
 * Tests a decider: `given(aggregate, …history).when(decide, outcome)`. The outcome is a list of events or an error
 * code.
 */
export function given<C extends CatalogCategory, State>(
  aggregate: Aggregate<C, State>,
  ...history: EventOf<C>[]
): Given<EventOf<C>, State> {
  const state = fold(aggregate, history);
  return {
    state,
    whenOnce(decide, event) {
      this.when(decide, [event]);
      given(aggregate, ...history, event).when(decide, []);
    },
    when(decide, outcome) {
      if (typeof outcome !== "string") expect(decide(state)).to.deep.equal(outcome);
      else
        expect(() => decide(state))
          .to.throw(DomainError)
          .with.property("code", outcome);
    },
  };
}
