import type { Aggregate } from "../aggregate.ts";
import { appointmentAggregate } from "../appointment/appointment.ts";
import { auditorAggregate } from "../audit/auditor.ts";
import { animalAggregate } from "../clinic/animal.ts";
import { customerAggregate } from "../clinic/customer.ts";
import { membershipAggregate } from "../clinic/membership.ts";
import { queueTicketAggregate } from "../clinic/queue-ticket.ts";
import { staffAggregate } from "../clinic/staff.ts";
import type { CatalogEvent } from "../events/catalog.ts";
import type { Category } from "../events/category.ts";
import type { EventMetadata } from "../events/metadata.ts";
import type { Person } from "./person.ts";

/** Aggregates whose events contain personal data. */
export const personalAggregates = [
  ...[customerAggregate, animalAggregate, staffAggregate, membershipAggregate, auditorAggregate],
  ...[appointmentAggregate, queueTicketAggregate],
] as const;

const aggregatesByEventType = new Map<string, Aggregate<Category, unknown>>(
  (personalAggregates as unknown as readonly Aggregate<Category, unknown>[]).flatMap((aggregate) =>
    Object.keys(aggregate.category.events).map((type) => [type, aggregate] as const),
  ),
);

/**
 * Returns the person whose personal data the events of a stream contain. The person never changes, so the first event
 * suffices.
 *
 * @returns undefined if events of this category contain no personal data, or if the first event creates no state
 */
export function findPersonOfStream(firstEvent: CatalogEvent & { metadata: EventMetadata }): Person | undefined {
  const aggregate = aggregatesByEventType.get(firstEvent.type);
  const state = aggregate?.evolve(undefined, firstEvent as never);
  return state === undefined ? undefined : aggregate?.personOf?.(state);
}
