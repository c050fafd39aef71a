import { animalCategory } from "../../../shared/domain/events/people.ts";
import { changeAnimal, registerAnimal, weighAnimal } from "../../operations/people-operations.ts";
import { type Command, defineCommand } from "../framework/command.ts";
import {
  defineIdOption,
  defineNewIdOption,
  defineNullableTextOption,
  defineNumberOption,
  defineTextChangeOption,
  defineTextOption,
  omitUndefined,
} from "../framework/option.ts";

const { AnimalRegistered, AnimalWeighed } = animalCategory.events;
const animalFields = AnimalRegistered.shape;
const CLINIC_OPTION = "--clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";
const ID_OPTION = "--id 9c1d6c1e-5b60-4a7b-8a38-6f2f6a1e0003";

const clinic = defineIdOption("the clinic");

export const animalCommands: Command[] = [
  defineCommand(animalCategory, {
    name: "animal register",
    summary: "Registers a customer's animal.",
    example: `${CLINIC_OPTION} --customer 5f0e8a52-7a3c-4be5-9d0a-8a4a62f7c002 --name Luna --species cat --weight-kg 4.2`,
    options: {
      id: defineNewIdOption("the new animal's id"),
      clinic,
      customer: defineIdOption("the customer who owns the animal"),
      name: defineTextOption(animalFields.name, "name"),
      species: defineTextOption(animalFields.species, "species, such as dog or cat"),
      breed: defineNullableTextOption(animalFields.breed, "breed"),
      sex: defineNullableTextOption(animalFields.sex, "sex"),
      birthDate: defineNullableTextOption(animalFields.birthDate, "date of birth", "YYYY-MM-DD"),
      weightKg: defineNumberOption(animalFields.weightKg.default(null), "weight in kilograms"),
      microchip: defineNullableTextOption(animalFields.microchip, "microchip number"),
    },
    run: (log, { id: animalId, clinic: clinicId, customer: customerId, ...rest }, context) =>
      registerAnimal(log, { animalId, clinicId, customerId, ...rest }, context),
  }),
  defineCommand(animalCategory, {
    name: "animal change",
    summary: "Changes the given details of an animal. An empty value clears the detail.",
    example: `${ID_OPTION} ${CLINIC_OPTION} --name Luna --microchip 900000012345678`,
    options: {
      id: defineIdOption("the animal"),
      clinic,
      name: defineTextChangeOption(animalFields.name, "name"),
      species: defineTextChangeOption(animalFields.species, "species, such as dog or cat"),
      breed: defineTextChangeOption(animalFields.breed, "breed"),
      sex: defineTextChangeOption(animalFields.sex, "sex"),
      birthDate: defineTextChangeOption(animalFields.birthDate, "date of birth", "YYYY-MM-DD"),
      microchip: defineTextChangeOption(animalFields.microchip, "microchip number"),
    },
    run: (log, { id: animalId, clinic: clinicId, ...changes }, context) =>
      changeAnimal(log, { animalId, clinicId, details: omitUndefined(changes) }, context),
  }),
  defineCommand(animalCategory, {
    name: "animal weigh",
    summary: "Records an animal's weight.",
    example: `${ID_OPTION} ${CLINIC_OPTION} --weight-kg 4.35`,
    options: {
      id: defineIdOption("the animal"),
      clinic,
      weightKg: defineNumberOption(AnimalWeighed.shape.weightKg, "weight in kilograms"),
    },
    run: (log, { id: animalId, clinic: clinicId, weightKg }, context) =>
      weighAnimal(log, { animalId, clinicId, weightKg }, context),
  }),
];
