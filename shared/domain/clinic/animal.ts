import type { Aggregate, Decision } from "../aggregate.ts";
import { isEqual } from "../equal.ts";
import type { DataOf } from "../events/category.ts";
import { type AnimalEvent, animalCategory } from "../events/people.ts";
import { registerIdempotently, requireOwnedBy } from "../preconditions.ts";

export type AnimalRegistration = DataOf<AnimalEvent, "AnimalRegistered">;
export type AnimalDetails = Omit<DataOf<AnimalEvent, "AnimalDetailsChanged">, "animalId">;

/** An animal as one clinic knows it. */
export interface Animal {
  id: string;
  clinicId: string;
  customerId: string;
  registration: AnimalRegistration;
  details: AnimalDetails;
  weightKg: number | null;
}

export const animalAggregate: Aggregate<typeof animalCategory, Animal> = {
  category: animalCategory,
  evolve(state, event) {
    if (event.type === "AnimalRegistered") return registeredAnimal(event.data);
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
};

type AnimalDecision = Decision<Animal, AnimalEvent>;

/** An animal as its registration tells it. */
export function registeredAnimal(registration: AnimalRegistration): Animal {
  const { animalId: id, clinicId, customerId, weightKg, ...details } = registration;
  return { id, clinicId, customerId, registration, details, weightKg };
}

type OfClinic = { clinicId: string; animalId: string };

export function decideRegisterAnimal(data: AnimalRegistration): AnimalDecision {
  return (state) => registerIdempotently(state?.registration, { type: "AnimalRegistered", data }, "animal");
}

/** What is not named stays as it is. */
export function decideChangeAnimal(change: OfClinic & { details: Partial<AnimalDetails> }): AnimalDecision {
  return (state) => {
    const { animalId } = change;
    const animal = requireOwnedBy(change.clinicId, state, "animal");
    const details = { ...animal.details, ...change.details };
    if (isEqual(animal.details, details)) return [];
    return [{ type: "AnimalDetailsChanged", data: { animalId, ...details } }];
  };
}

/** Every weighing is a fact, also one that gives the weight of the last. */
export function decideWeighAnimal(weighing: OfClinic & { weightKg: number }): AnimalDecision {
  return (state) => {
    const { animalId, weightKg } = weighing;
    requireOwnedBy(weighing.clinicId, state, "animal");
    return [{ type: "AnimalWeighed", data: { animalId, weightKg } }];
  };
}
