import { registerAnimal, registerCustomer } from "../../../command/operations/people-operations.ts";
import type { AnimalRegistration } from "../../../shared/domain/clinic/animal.ts";
import { addDays, DAY_MS, toLocalDate } from "../../../shared/domain/time/local-time.ts";
import type { DemoClinic } from "./clinics.ts";
import { createPicker, deriveDemoId } from "./random.ts";
import { createStep, type StepSequence } from "./steps.ts";

/** Breeds of each species, with the minimum and maximum weight in kilograms. */
const SPECIES = {
  dog: { breeds: ["Labrador Retriever", "Dachshund", "Border Collie", "Poodle", null], weight: [5, 40] },
  cat: { breeds: ["European Shorthair", "Maine Coon", "British Shorthair", null], weight: [3, 8] },
  rabbit: { breeds: ["Netherland Dwarf", "Lop", null], weight: [1, 4] },
  bird: { breeds: ["Budgerigar", "Cockatiel"], weight: [0.03, 0.12] },
} as const;

/** Species to choose from. A species that is listed several times is chosen more often. */
const WEIGHTED_SPECIES = ["dog", "dog", "dog", "dog", "cat", "cat", "cat", "cat", "rabbit", "bird"] as const;

const ANIMAL_NAMES =
  "Luna Milo Bella Rocky Nala Simba Coco Max Lola Oscar Daisy Charlie Kira Bruno Maya Leo Pepper".split(" ");

export interface DemoAnimal {
  id: string;
  customerId: string;
}

/** Returns the animals of a clinic. Every second customer has two animals. All other customers have one. */
export function listAnimals({ slug, customerCount }: Pick<DemoClinic, "slug" | "customerCount">): DemoAnimal[] {
  return Array.from({ length: customerCount }, (_, customerIndex) =>
    Array.from({ length: 1 + (customerIndex % 2) }, (_, animalIndex) => ({
      id: deriveDemoId(slug, "animal", customerIndex, animalIndex),
      customerId: deriveDemoId(slug, "customer", customerIndex),
    })),
  ).flat();
}

/** Registers the customers and their animals. The registration times are within the last year. */
export function registerCustomers(clinic: DemoClinic, now: number): StepSequence[] {
  const animals = listAnimals(clinic);
  return Array.from({ length: clinic.customerCount }, (_, index) => {
    const registeredAt = now - (365 - (index % 360)) * DAY_MS;
    const customer = describeCustomer(clinic, index);
    const ownAnimals = animals.filter(({ customerId }) => customerId === customer.customerId);
    return [
      createStep(`${clinic.slug} customer ${index}`, registeredAt, registerCustomer, customer),
      ...ownAnimals.map((animal, animalIndex) => {
        const name = `${clinic.slug} animal ${index} ${animalIndex}`;
        return createStep(name, registeredAt + 60_000, registerAnimal, describeAnimal(clinic, animal, now));
      }),
    ];
  });
}

function describeCustomer(clinic: DemoClinic, index: number) {
  const customerId = deriveDemoId(clinic.slug, "customer", index);
  const picker = createPicker(customerId);
  const [firstName, lastName] = [picker.pick(clinic.firstNames), picker.pick(clinic.lastNames)];
  return {
    customerId,
    clinicId: clinic.id,
    fullName: `${firstName} ${lastName}`,
    phone: picker.pickBoolean(0.9) ? `${clinic.phonePrefix} ${String(index).padStart(4, "0")}` : null,
    email: picker.pickBoolean(0.8) ? `customer-${index}@${clinic.slug}.example` : null,
    city: picker.pickBoolean(0.85) ? picker.pick(clinic.branches).city : null,
  };
}

function describeAnimal(clinic: DemoClinic, { id: animalId, customerId }: DemoAnimal, now: number): AnimalRegistration {
  const picker = createPicker(animalId);
  const species = picker.pick(WEIGHTED_SPECIES);
  const { breeds, weight: weightRange } = SPECIES[species];
  const [minKg, maxKg] = weightRange;
  const weightKg = Math.round((minKg + ((maxKg - minKg) * picker.pickIntegerBelow(100)) / 100) * 1000) / 1000;
  return {
    animalId,
    clinicId: clinic.id,
    customerId,
    name: picker.pick(ANIMAL_NAMES),
    species,
    breed: picker.pick<string | null>(breeds),
    sex: picker.pick(["female", "male", "female_neutered", "male_neutered", null]),
    birthDate: picker.pickBoolean(0.8)
      ? addDays(toLocalDate(clinic.timezone, now), -400 - picker.pickIntegerBelow(4000))
      : null,
    weightKg: picker.pickBoolean(0.9) ? weightKg : null,
    microchip: picker.pickBoolean(0.6)
      ? `9000000${String(picker.pickIntegerBelow(100_000_000)).padStart(8, "0")}`
      : null,
  };
}
