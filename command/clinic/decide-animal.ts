import { isDeepStrictEqual } from "node:util";
import type { AnimalEvent } from "../../shared/events/people.ts";
import type { Animal, AnimalDetails, AnimalRegistration } from "./animal.ts";
import { owned } from "./owned.ts";
import { registerOnce } from "./register-once.ts";

type Decision = (state: Animal | undefined) => AnimalEvent[];
type OfClinic = { clinicId: string; animalId: string };

export function decideRegisterAnimal(data: AnimalRegistration): Decision {
  return (state) => registerOnce(state?.registration, { type: "AnimalRegistered", data }, "animal");
}

/** What is not named stays as it is. */
export function decideChangeAnimal(change: OfClinic & { details: Partial<AnimalDetails> }): Decision {
  return (state) => {
    const { animalId } = change;
    const animal = owned(state, change.clinicId, "animal");
    const details = { ...animal.details, ...change.details };
    if (isDeepStrictEqual(animal.details, details)) return [];
    return [{ type: "AnimalDetailsChanged", data: { animalId, ...details } }];
  };
}

/** Every weighing is a fact, also one that gives the weight of the last. */
export function decideWeighAnimal(weighing: OfClinic & { weightKg: number }): Decision {
  return (state) => {
    const { animalId, weightKg } = weighing;
    owned(state, weighing.clinicId, "animal");
    return [{ type: "AnimalWeighed", data: { animalId, weightKg } }];
  };
}
