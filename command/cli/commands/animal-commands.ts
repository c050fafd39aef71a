import { animalCategory } from "../../../shared/domain/events/people.ts";
import { changeAnimal, registerAnimal, weighAnimal } from "../../operations/people-operations.ts";
import { type Command, defineCommand } from "../framework/command.ts";
import { id, newId, number, omitUndefined, text, textOrNull, textToChange } from "../framework/option.ts";

const { AnimalRegistered, AnimalWeighed } = animalCategory.events;
const registered = AnimalRegistered.shape;
const CLINIC = "--clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";
const ID = "--id 9c1d6c1e-5b60-4a7b-8a38-6f2f6a1e0003";

const clinic = id("the clinic");

export const animalCommands: Command[] = [
  defineCommand({
    name: "animal register",
    summary: "Registers an animal of a customer.",
    example: `${CLINIC} --customer 5f0e8a52-7a3c-4be5-9d0a-8a4a62f7c002 --name Luna --species cat --weight-kg 4.2`,
    options: {
      id: newId("the new animal's id"),
      clinic,
      customer: id("the owner"),
      name: text(registered.name, "name"),
      species: text(registered.species, "species, such as dog or cat"),
      breed: textOrNull(registered.breed.unwrap(), "breed"),
      sex: textOrNull(registered.sex.unwrap(), "sex"),
      birthDate: textOrNull(registered.birthDate.unwrap(), "date of birth", "YYYY-MM-DD"),
      weightKg: number(registered.weightKg.default(null), "weight in kilograms"),
      microchip: textOrNull(registered.microchip.unwrap(), "microchip number"),
    },
    category: animalCategory,
    changes: (values) => values.id,
    run: (log, { id: animalId, clinic: clinicId, customer: customerId, ...rest }, context) =>
      registerAnimal(log, { animalId, clinicId, customerId, ...rest }, context),
  }),
  defineCommand({
    name: "animal change",
    summary: "Changes the given details of an animal. An empty value clears a detail.",
    example: `${ID} ${CLINIC} --name Luna --microchip 900000012345678`,
    options: {
      id: id("the animal"),
      clinic,
      name: textToChange(registered.name, "name"),
      species: textToChange(registered.species, "species, such as dog or cat"),
      breed: textToChange(registered.breed, "breed"),
      sex: textToChange(registered.sex, "sex"),
      birthDate: textToChange(registered.birthDate, "date of birth", "YYYY-MM-DD"),
      microchip: textToChange(registered.microchip, "microchip number"),
    },
    category: animalCategory,
    changes: (values) => values.id,
    run: (log, { id: animalId, clinic: clinicId, ...given }, context) =>
      changeAnimal(log, { animalId, clinicId, details: omitUndefined(given) }, context),
  }),
  defineCommand({
    name: "animal weigh",
    summary: "Records an animal's weight.",
    example: `${ID} ${CLINIC} --weight-kg 4.35`,
    options: {
      id: id("the animal"),
      clinic,
      weightKg: number(AnimalWeighed.shape.weightKg, "weight in kilograms"),
    },
    category: animalCategory,
    changes: (values) => values.id,
    run: (log, { id: animalId, clinic: clinicId, weightKg }, context) =>
      weighAnimal(log, { animalId, clinicId, weightKg }, context),
  }),
];
