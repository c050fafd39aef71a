import { customerCategory } from "../../../shared/domain/events/people.ts";
import { changeCustomer, registerCustomer } from "../../operations/people-operations.ts";
import { type Command, defineCommand } from "../framework/command.ts";
import { id, newId, omitUndefined, text, textOrNull, textToChange } from "../framework/option.ts";

const customer = customerCategory.events.CustomerRegistered.shape;
const CLINIC = "--clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";
const ID = "--id 5f0e8a52-7a3c-4be5-9d0a-8a4a62f7c002";

const clinic = id("the clinic");

export const customerCommands: Command[] = [
  defineCommand({
    name: "customer register",
    summary: "Registers a customer, the owner of animals.",
    example: `${CLINIC} --full-name 'Ada Example' --phone '+41 41 555 0101' --city Zug`,
    options: {
      id: newId("the new customer's id"),
      clinic,
      fullName: text(customer.fullName, "name"),
      phone: textOrNull(customer.phone.unwrap(), "telephone number"),
      email: textOrNull(customer.email.unwrap(), "e-mail address", "address"),
      city: textOrNull(customer.city.unwrap(), "city"),
    },
    category: customerCategory,
    changes: (values) => values.id,
    run: (log, { id: customerId, clinic: clinicId, ...details }, context) =>
      registerCustomer(log, { customerId, clinicId, ...details }, context),
  }),
  defineCommand({
    name: "customer change",
    summary: "Changes the given details of a customer. An empty value clears a detail.",
    example: `${ID} ${CLINIC} --phone '+41 41 555 0102' --email ''`,
    options: {
      id: id("the customer"),
      clinic,
      fullName: textToChange(customer.fullName, "name"),
      phone: textToChange(customer.phone, "telephone number"),
      email: textToChange(customer.email, "e-mail address", "address"),
      city: textToChange(customer.city, "city"),
    },
    category: customerCategory,
    changes: (values) => values.id,
    run: (log, { id: customerId, clinic: clinicId, ...given }, context) =>
      changeCustomer(log, { customerId, clinicId, details: omitUndefined(given) }, context),
  }),
];
