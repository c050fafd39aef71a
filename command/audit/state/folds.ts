import { appointmentAggregate } from "../../../shared/domain/appointment/appointment.ts";
import { auditorAggregate } from "../../../shared/domain/audit/auditor.ts";
import { animalAggregate } from "../../../shared/domain/clinic/animal.ts";
import { clinicAggregate } from "../../../shared/domain/clinic/clinic.ts";
import { customerAggregate } from "../../../shared/domain/clinic/customer.ts";
import { holdAggregate } from "../../../shared/domain/clinic/hold.ts";
import { membershipAggregate } from "../../../shared/domain/clinic/membership.ts";
import { portalUserAggregate } from "../../../shared/domain/clinic/portal-user.ts";
import { queueTicketAggregate } from "../../../shared/domain/clinic/queue-ticket.ts";
import { resourceAggregate } from "../../../shared/domain/clinic/resource.ts";
import { serviceAggregate } from "../../../shared/domain/clinic/service.ts";
import { staffAggregate } from "../../../shared/domain/clinic/staff.ts";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import type { Category } from "../../../shared/domain/events/category.ts";
import { applicationAggregate } from "../../../shared/domain/partner/application.ts";
import { installationAggregate } from "../../../shared/domain/partner/installation.ts";
import { deliveryAggregate } from "../../../shared/domain/partner/webhook-delivery.ts";
import { endpointAggregate } from "../../../shared/domain/partner/webhook-endpoint.ts";
import type { RecordedEvent } from "../../../shared/eventstore/log.ts";
import { toSandbox } from "../../operations/sandbox-operations.ts";
import { getCategoryName } from "../queries/query-fields.ts";

/** Pure function that returns the state of a stream after one more event. */
export type Fold = (state: unknown, event: RecordedEvent) => unknown;

const aggregates = [
  ...[appointmentAggregate, holdAggregate, queueTicketAggregate],
  ...[clinicAggregate, serviceAggregate, resourceAggregate, membershipAggregate, staffAggregate],
  ...[portalUserAggregate, customerAggregate, animalAggregate],
  ...[applicationAggregate, installationAggregate, endpointAggregate, deliveryAggregate, auditorAggregate],
] as const;

const foldsByCategory = new Map<string, Fold>(
  (aggregates as readonly { category: Category; evolve: unknown }[]).map(({ category, evolve }) => [
    category.name,
    evolve as Fold,
  ]),
);
foldsByCategory.set("sandbox", (_, event) => {
  const { revision: _revision, position: _position, ...state } = toSandbox(event as Parameters<typeof toSandbox>[0]);
  return state;
});

/**
 * Returns the function that folds the events of a stream: the `evolve` function of the stream's aggregate. For a
 * sandbox, the state is taken from the last reset. For other categories without an aggregate, the state contains the
 * data of the last event of each type.
 */
export function getFold(stream: string): Fold {
  return foldsByCategory.get(getCategoryName(stream)) ?? keepLastOfEachType;
}

function keepLastOfEachType(state: unknown, { type, data }: CatalogEvent): unknown {
  return { ...(state as Record<string, unknown> | undefined), [type]: data };
}
