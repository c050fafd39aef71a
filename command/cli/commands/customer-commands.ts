import { option } from "../../../shared/command-line/option.ts";
import { customerCategory } from "../../../shared/domain/events/people.ts";
import { changeCustomer, registerCustomer } from "../../operations/people-operations.ts";
import { type DomainCommand, defineDomainCommand } from "../domain-command.ts";
import { clinic, omitUndefined } from "../options.ts";

const customerFields = customerCategory.events.CustomerRegistered.shape;
const EXAMPLE_CLINIC_ARGUMENT = "--clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";
const EXAMPLE_ID_ARGUMENT = "--id 5f0e8a52-7a3c-4be5-9d0a-8a4a62f7c002";

export const customerCommands: DomainCommand[] = [
  defineDomainCommand(customerCategory, {
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
  defineDomainCommand(customerCategory, {
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
