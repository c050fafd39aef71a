import type { Aggregate, Decision } from "../aggregate.ts";
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

export const animalAggregate: Aggregate<typeof animalStreams, Animal> = {
  category: animalStreams,
  evolve(state, event) {
    if (event.type === "AnimalRegistered") return toRegisteredAnimal(event.data);
    if (!state) return undefined;
    switch (event.type) {
      case "AnimalDetailsChanged": {
        const { animalId: _, ...details } = event.data;
        return { ...state, details };
      }
      case "AnimalWeighed":
        return { ...state, weightKg: event.data.weightKg };
    }
  },
  personOf: ({ customerId }) => ({ type: "customer", id: customerId }),
};

type AnimalDecision = Decision<Animal, AnimalEvent>;

/** Returns the state of an animal after its registration. */
export function toRegisteredAnimal(registration: AnimalRegistration): Animal {
  const { animalId: id, clinicId, customerId, weightKg, ...details } = registration;
  return { id, clinicId, customerId, registration, details, weightKg };
}

/** Identifies an animal of a clinic. */
type AnimalRef = { clinicId: string; animalId: string };

export function decideRegisterAnimal(data: AnimalRegistration): AnimalDecision {
  return (state) => registerIdempotently(state?.registration, { type: "AnimalRegistered", data }, "animal");
}

/** Changes the given details of an animal. Omitted details remain unchanged. */
export function decideChangeAnimal(change: AnimalRef & { details: Partial<AnimalDetails> }): AnimalDecision {
  return (state) => {
    const { animalId } = change;
    const animal = requireOwnedBy(change.clinicId, state, "animal");
    const details = { ...animal.details, ...change.details };
    if (isEqual(animal.details, details)) return [];
    return [{ type: "AnimalDetailsChanged", data: { animalId, ...details } }];
  };
}

/** Records an animal's weight. Each weighing is recorded, even if the weight is unchanged. */
export function decideWeighAnimal(weighing: AnimalRef & { weightKg: number }): AnimalDecision {
  return (state) => {
    const { animalId, weightKg } = weighing;
    requireOwnedBy(weighing.clinicId, state, "animal");
    return [{ type: "AnimalWeighed", data: { animalId, weightKg } }];
  };
}
