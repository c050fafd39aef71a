import { type AnimalEvent, animalCategory } from "../../shared/events/people.ts";
import type { Aggregate } from "../handle.ts";
import type { DataOf } from "./data-of.ts";

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

/** An animal as its registration tells it. */
export function registeredAnimal(registration: AnimalRegistration): Animal {
  const { animalId: id, clinicId, customerId, weightKg, ...details } = registration;
  return { id, clinicId, customerId, registration, details, weightKg };
}
