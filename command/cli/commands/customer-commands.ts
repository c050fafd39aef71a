import { option } from "../../../shared/command-line/option.ts";
import { animalStreams, customerStreams } from "../../../shared/domain/events/people.ts";
import {
  changeAnimal,
  changeCustomer,
  registerAnimal,
  registerCustomer,
  weighAnimal,
} from "../../operations/people-operations.ts";
import { type DomainCommand, defineDomainCommand } from "../domain-command.ts";
import { clinic, omitUndefined } from "../options.ts";

const customerFields = customerStreams.events.CustomerRegistered.shape;
const EXAMPLE_CLINIC_ARGUMENT = "--clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";
const EXAMPLE_ID_ARGUMENT = "--id 5f0e8a52-7a3c-4be5-9d0a-8a4a62f7c002";

export const customerCommands: DomainCommand[] = [
  defineDomainCommand(customerStreams, {
    name: "customer register",
    summary: "Registers a customer, who can own animals.",
    example: `${EXAMPLE_CLINIC_ARGUMENT} --full-name 'Ada Example' --phone '+41 41 555 0101' --city Zug`,
    options: {
      id: option.newId("the new customer's id"),
      clinic,
      fullName: option.text(customerFields.fullName, "name"),
      phone: option.nullableText(customerFields.phone, "telephone number"),
      email: option.nullableText(customerFields.email, "e-mail address", "address"),
      city: option.nullableText(customerFields.city, "city"),
    },
    run: (log, { id: customerId, clinic: clinicId, ...details }, context) =>
      registerCustomer(log, { customerId, clinicId, ...details }, context),
  }),
  defineDomainCommand(customerStreams, {
    name: "customer change",
    summary: "Changes the given details of a customer. An empty value clears the detail.",
    example: `${EXAMPLE_ID_ARGUMENT} ${EXAMPLE_CLINIC_ARGUMENT} --phone '+41 41 555 0102' --email ''`,
    options: {
      id: option.id("the customer"),
      clinic,
      fullName: option.textChange(customerFields.fullName, "name"),
      phone: option.textChange(customerFields.phone, "telephone number"),
      email: option.textChange(customerFields.email, "e-mail address", "address"),
      city: option.textChange(customerFields.city, "city"),
    },
    run: (log, { id: customerId, clinic: clinicId, ...changes }, context) =>
      changeCustomer(log, { customerId, clinicId, details: omitUndefined(changes) }, context),
  }),
];

const { AnimalRegistered, AnimalWeighed } = animalStreams.events;
const animalFields = AnimalRegistered.shape;
const EXAMPLE_ANIMAL_ARGUMENT = "--id 9c1d6c1e-5b60-4a7b-8a38-6f2f6a1e0003";

export const animalCommands: DomainCommand[] = [
  defineDomainCommand(animalStreams, {
    name: "animal register",
    summary: "Registers a customer's animal.",
    example: `${EXAMPLE_CLINIC_ARGUMENT} --customer 5f0e8a52-7a3c-4be5-9d0a-8a4a62f7c002 --name Luna --species cat --weight-kg 4.2`,
    options: {
      id: option.newId("the new animal's id"),
      clinic,
      customer: option.id("the customer who owns the animal"),
      name: option.text(animalFields.name, "name"),
      species: option.text(animalFields.species, "species, such as dog or cat"),
      breed: option.nullableText(animalFields.breed, "breed"),
      sex: option.nullableText(animalFields.sex, "sex"),
      birthDate: option.nullableText(animalFields.birthDate, "date of birth", "YYYY-MM-DD"),
      weightKg: option.number(animalFields.weightKg.default(null), "weight in kilograms"),
      microchip: option.nullableText(animalFields.microchip, "microchip number"),
    },
    run: (log, { id: animalId, clinic: clinicId, customer: customerId, ...details }, context) =>
      registerAnimal(log, { animalId, clinicId, customerId, ...details }, context),
  }),
  defineDomainCommand(animalStreams, {
    name: "animal change",
    summary: "Changes the given details of an animal. An empty value clears the detail.",
    example: `${EXAMPLE_ANIMAL_ARGUMENT} ${EXAMPLE_CLINIC_ARGUMENT} --name Luna --microchip 900000012345678`,
    options: {
      id: option.id("the animal"),
      clinic,
      name: option.textChange(animalFields.name, "name"),
      species: option.textChange(animalFields.species, "species, such as dog or cat"),
      breed: option.textChange(animalFields.breed, "breed"),
      sex: option.textChange(animalFields.sex, "sex"),
      birthDate: option.textChange(animalFields.birthDate, "date of birth", "YYYY-MM-DD"),
      microchip: option.textChange(animalFields.microchip, "microchip number"),
    },
    run: (log, { id: animalId, clinic: clinicId, ...changes }, context) =>
      changeAnimal(log, { animalId, clinicId, details: omitUndefined(changes) }, context),
  }),
  defineDomainCommand(animalStreams, {
    name: "animal weigh",
    summary: "Records an animal's weight.",
    example: `${EXAMPLE_ANIMAL_ARGUMENT} ${EXAMPLE_CLINIC_ARGUMENT} --weight-kg 4.35`,
    options: {
      id: option.id("the animal"),
      clinic,
      weightKg: option.number(AnimalWeighed.shape.weightKg, "weight in kilograms"),
    },
    run: (log, { id: animalId, clinic: clinicId, weightKg }, context) =>
      weighAnimal(log, { animalId, clinicId, weightKg }, context),
  }),
];
