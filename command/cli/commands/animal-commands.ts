import { animalCategory } from "../../../shared/domain/events/people.ts";
import { changeAnimal, registerAnimal, weighAnimal } from "../../operations/people-operations.ts";
import { type Command, defineCommand } from "../framework/command.ts";
import { id, newId, number, omitUndefined, text, textOrNull, textToChange } from "../framework/option.ts";

const { AnimalRegistered, AnimalWeighed } = animalCategory.events;
const animalFields = AnimalRegistered.shape;
const CLINIC_OPTION = "--clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";
const ID_OPTION = "--id 9c1d6c1e-5b60-4a7b-8a38-6f2f6a1e0003";

const clinic = id("the clinic");

export const animalCommands: Command[] = [
  defineCommand(animalCategory, {
    name: "animal register",
    summary: "Registers a customer's animal.",
    example: `${CLINIC_OPTION} --customer 5f0e8a52-7a3c-4be5-9d0a-8a4a62f7c002 --name Luna --species cat --weight-kg 4.2`,
    options: {
      id: newId("the new animal's id"),
      clinic,
      customer: id("the customer who owns the animal"),
      name: text(animalFields.name, "name"),
      species: text(animalFields.species, "species, such as dog or cat"),
      breed: textOrNull(animalFields.breed, "breed"),
      sex: textOrNull(animalFields.sex, "sex"),
      birthDate: textOrNull(animalFields.birthDate, "date of birth", "YYYY-MM-DD"),
      weightKg: number(animalFields.weightKg.default(null), "weight in kilograms"),
      microchip: textOrNull(animalFields.microchip, "microchip number"),
    },
    run: (log, { id: animalId, clinic: clinicId, customer: customerId, ...rest }, context) =>
      registerAnimal(log, { animalId, clinicId, customerId, ...rest }, context),
  }),
  defineCommand(animalCategory, {
    name: "animal change",
    summary: "Changes the given details of an animal. An empty value clears the detail.",
    example: `${ID_OPTION} ${CLINIC_OPTION} --name Luna --microchip 900000012345678`,
    options: {
      id: id("the animal"),
      clinic,
      name: textToChange(animalFields.name, "name"),
      species: textToChange(animalFields.species, "species, such as dog or cat"),
      breed: textToChange(animalFields.breed, "breed"),
      sex: textToChange(animalFields.sex, "sex"),
      birthDate: textToChange(animalFields.birthDate, "date of birth", "YYYY-MM-DD"),
      microchip: textToChange(animalFields.microchip, "microchip number"),
    },
    run: (log, { id: animalId, clinic: clinicId, ...changes }, context) =>
      changeAnimal(log, { animalId, clinicId, details: omitUndefined(changes) }, context),
  }),
  defineCommand(animalCategory, {
    name: "animal weigh",
    summary: "Records an animal's weight.",
    example: `${ID_OPTION} ${CLINIC_OPTION} --weight-kg 4.35`,
    options: {
      id: id("the animal"),
      clinic,
      weightKg: number(AnimalWeighed.shape.weightKg, "weight in kilograms"),
    },
    run: (log, { id: animalId, clinic: clinicId, weightKg }, context) =>
      weighAnimal(log, { animalId, clinicId, weightKg }, context),
  }),
];
