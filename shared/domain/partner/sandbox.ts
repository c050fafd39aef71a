import { type Animal, toRegisteredAnimal } from "../clinic/animal.ts";
import { type Resource, resourceAggregate } from "../clinic/resource.ts";
import type { SandboxEvent } from "../events/sandbox.ts";
import type { Occupation } from "../scheduling/occupancy.ts";
import type { Instant } from "../time/rfc3339.ts";

/** State of an application's sandbox since its last reset. */
export type Sandbox = SandboxEvent["data"] & {
  resetAt: Instant;
  /** Revision of the last reset event. */
  revision: bigint;
  position: bigint;
};

/** Finds an animal in the sandbox's current fixture data. */
export function findFixtureAnimal({ events }: Sandbox, animalId: string): Animal | undefined {
  const registrationEvent = events.find(
    (event) => event.type === "AnimalRegistered" && event.data.animalId === animalId,
  );
  return registrationEvent?.type === "AnimalRegistered" ? toRegisteredAnimal(registrationEvent.data) : undefined;
}

/** Finds a resource in the sandbox's current fixture data, with its availability rules. */
export function findFixtureResource({ events }: Sandbox, resourceId: string): Resource | undefined {
  const { category, evolve } = resourceAggregate;
  return events
    .filter(({ type, data }) => type in category.events && "resourceId" in data && data.resourceId === resourceId)
    .reduce<Resource | undefined>((state, { at: occurredAt, ...event }) => {
      return evolve(state, { ...event, metadata: { occurredAt } } as never);
    }, undefined);
}

/** Lists the time spans in which appointments of the fixture occupy a place of the resource. */
export function listFixtureOccupations({ events }: Pick<Sandbox, "events">, resourceId: string): Occupation[] {
  return events.flatMap((event) => {
    if (event.type !== "ResourceAllocated" || event.data.resourceId !== resourceId) return [];
    const { appointmentId: ownerId, allocationStart, allocationEnd } = event.data;
    return [{ ownerId, fromMs: Date.parse(allocationStart), toMs: Date.parse(allocationEnd) }];
  });
}
