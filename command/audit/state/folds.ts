import type { Category } from "../../../shared/events/category.ts";
import type { CatalogEvent } from "../../../shared/events/registry.ts";
import type { RecordedEvent } from "../../../shared/eventstore/log.ts";
import { appointmentAggregate } from "../../appointment/appointment-aggregate.ts";
import { animalAggregate } from "../../clinic/animal.ts";
import { clinicAggregate } from "../../clinic/clinic.ts";
import { customerAggregate } from "../../clinic/customer.ts";
import { holdAggregate } from "../../clinic/hold.ts";
import { membershipAggregate } from "../../clinic/membership.ts";
import { portalUserAggregate } from "../../clinic/portal-user.ts";
import { queueTicketAggregate } from "../../clinic/queue-ticket.ts";
import { resourceAggregate } from "../../clinic/resource.ts";
import { serviceAggregate } from "../../clinic/service.ts";
import { staffAggregate } from "../../clinic/staff.ts";
import { applicationAggregate } from "../../partner/application.ts";
import { installationAggregate } from "../../partner/installation.ts";
import { toSandbox } from "../../sandbox/sandbox.ts";
import { deliveryAggregate } from "../../webhook-endpoint/delivery.ts";
import { endpointAggregate } from "../../webhook-endpoint/endpoint.ts";
import { auditorAggregate } from "../access/auditor.ts";
import { categoryOf } from "../ask/stream.ts";

/** The state after one more event. Pure; the events are of the one stream. */
export type Fold = (state: unknown, event: RecordedEvent) => unknown;

const aggregates = [
  ...[appointmentAggregate, holdAggregate, queueTicketAggregate],
  ...[clinicAggregate, serviceAggregate, resourceAggregate, membershipAggregate, staffAggregate],
  ...[portalUserAggregate, customerAggregate, animalAggregate],
  ...[applicationAggregate, installationAggregate, endpointAggregate, deliveryAggregate, auditorAggregate],
] as const;

const folds = new Map<string, Fold>(
  (aggregates as readonly { category: Category; evolve: unknown }[]).map(({ category, evolve }) => [
    category.name,
    evolve as Fold,
  ]),
);
folds.set("sandbox", (_, event) => {
  const { revision: _r, position: _p, ...state } = toSandbox(event as Parameters<typeof toSandbox>[0]);
  return state;
});

/**
 * How the service itself folds a stream: the very `evolve` that its commands decide on. Of a category whose commands
 * keep no state the last event of each type stands for it.
 */
export function foldOf(stream: string): Fold {
  return folds.get(categoryOf(stream)) ?? lastOfEachType;
}

function lastOfEachType(state: unknown, { type, data }: CatalogEvent): unknown {
  return { ...(state as Record<string, unknown> | undefined), [type]: data };
}
