import * as animals from "../../shared/domain/clinic/animal.ts";
import * as customers from "../../shared/domain/clinic/customer.ts";
import { animalStreams, customerStreams } from "../../shared/domain/events/people.ts";
import { changesOf, defineCommand } from "./define-command.ts";

const { CustomerRegistered, CustomerDetailsChanged } = customerStreams.events;
const { AnimalRegistered, AnimalDetailsChanged, AnimalWeighed } = animalStreams.events;
const permission = "manage_schedule";

export const registerCustomer = defineCommand("customer register", customers.customerAggregate, {
  summary: "Registers a customer, who can own animals.",
  input: CustomerRegistered,
  creates: "customerId",
  permission,
  decide: customers.registerCustomer,
  example: { fullName: "Ada Example", phone: "+41 41 555 0101", city: "Zug" },
});

export const changeCustomer = defineCommand("customer change", customers.customerAggregate, {
  summary: "Changes the given details of a customer. An empty value clears the detail.",
  input: changesOf(CustomerDetailsChanged, "customerId"),
  permission,
  decide: customers.changeCustomer,
  example: { phone: "+41 41 555 0102", email: null },
});

/** Registers an animal. The animal's customer must belong to the same clinic, and must not be erased. */
export const registerAnimal = defineCommand("animal register", animals.animalAggregate, {
  summary: "Registers a customer's animal.",
  input: AnimalRegistered,
  creates: "animalId",
  permission,
  refers: ({ customerId }, { require }) => require(customers.customerAggregate, customerId),
  decide: animals.registerAnimal,
  example: { name: "Luna", species: "cat", weightKg: 4.2 },
});

/** Changes an animal. The animal's customer must not be erased. */
export const changeAnimal = defineCommand("animal change", animals.animalAggregate, {
  summary: "Changes the given details of an animal. An empty value clears the detail.",
  input: changesOf(AnimalDetailsChanged, "animalId"),
  permission,
  refers: async ({ animalId }, { require }) =>
    require(customers.customerAggregate, (await require(animals.animalAggregate, animalId)).customerId),
  decide: animals.changeAnimal,
  example: { name: "Luna", microchip: "900000012345678" },
});

export const weighAnimal = defineCommand("animal weigh", animals.animalAggregate, {
  summary: "Records an animal's weight.",
  input: AnimalWeighed,
  permission,
  decide: animals.weighAnimal,
  example: { weightKg: 4.35 },
});
