import { type Aggregate, createClinicRecorder, type Decision, defineAggregate } from "../aggregate.ts";
import { isEqual } from "../equal.ts";
import type { DataOf } from "../events/category.ts";
import { type AnimalEvent, animalStreams } from "../events/people.ts";
import { registerIdempotently, requireOwnedBy } from "../preconditions.ts";

export type AnimalRegistration = DataOf<AnimalEvent, "AnimalRegistered">;
type AnimalDetails = Omit<DataOf<AnimalEvent, "AnimalDetailsChanged">, "animalId">;

/** State of an animal, which belongs to one clinic. */
export interface Animal {
  id: string;
  clinicId: string;
  customerId: string;
  registration: AnimalRegistration;
  details: AnimalDetails;
  weightKg: number | null;
}

export const animalAggregate: Aggregate<typeof animalStreams, Animal> = defineAggregate(
  animalStreams,
  { AnimalRegistered: toRegisteredAnimal },
  {
    AnimalDetailsChanged: ({ animalId: _, ...details }) => ({ details }),
    AnimalWeighed: ({ weightKg }) => ({ weightKg }),
  },
  { personOf: ({ customerId }) => ({ type: "customer", id: customerId }) },
);

type AnimalDecision = Decision<Animal, AnimalEvent>;

/** Returns the state of an animal after its registration. */
export function toRegisteredAnimal(registration: AnimalRegistration): Animal {
  const { animalId: id, clinicId, customerId, weightKg, ...details } = registration;
  return { id, clinicId, customerId, registration, details, weightKg };
}

export function registerAnimal(data: AnimalRegistration): AnimalDecision {
  return (state) => registerIdempotently(state?.registration, { type: "AnimalRegistered", data }, "animal");
}

/** Changes the given details of an animal. Omitted details remain unchanged. */
export function changeAnimal({
  clinicId,
  animalId,
  ...changes
}: { clinicId: string; animalId: string } & Partial<AnimalDetails>): AnimalDecision {
  return (state) => {
    const animal = requireOwnedBy(clinicId, state, "animal");
    const details = { ...animal.details, ...changes };
    return isEqual(animal.details, details) ? [] : [{ type: "AnimalDetailsChanged", data: { animalId, ...details } }];
  };
}

/** Records an animal's weight. Each weighing is recorded, even if the weight is unchanged. */
export const weighAnimal = createClinicRecorder(animalAggregate, "animal")("AnimalWeighed", () => true);
