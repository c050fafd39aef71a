import type { Aggregate, Decision } from "../aggregate.ts";
import { isEqual } from "../equal.ts";
import type { DataOf } from "../events/category.ts";
import { type CustomerEvent, customerStreams } from "../events/people.ts";
import {
  addErasure,
  decideErasure,
  type ErasedData,
  type Erasure,
  NOTHING_ERASED,
  requireNotErased,
} from "../personal-data/erasure.ts";
import { registerIdempotently, requireOwnedBy } from "../preconditions.ts";

type CustomerRegistration = DataOf<CustomerEvent, "CustomerRegistered">;
export type CustomerDetails = Omit<DataOf<CustomerEvent, "CustomerDetailsChanged">, "customerId">;

/** State of a customer, who owns animals and belongs to one clinic. */
export interface Customer extends ErasedData {
  id: string;
  clinicId: string;
  registration: CustomerRegistration;
  details: CustomerDetails;
}

export const customerAggregate: Aggregate<typeof customerStreams, Customer> = {
  category: customerStreams,
  evolve(state, event) {
    if (event.type === "CustomerRegistered") {
      const { customerId: id, clinicId, ...details } = event.data;
      return { id, clinicId, registration: event.data, details, ...NOTHING_ERASED };
    }
    if (!state) return undefined;
    switch (event.type) {
      case "CustomerDetailsChanged": {
        const { customerId: _, ...details } = event.data;
        return { ...state, details };
      }
      case "CustomerDataErased":
        return { ...state, ...addErasure(state, event.data) };
    }
  },
  personOf: ({ id }) => ({ type: "customer", id }),
};

type CustomerDecision = Decision<Customer, CustomerEvent>;

export function decideRegisterCustomer(data: CustomerRegistration): CustomerDecision {
  return (state) => {
    if (state) requireNotErased(state, "customer");
    return registerIdempotently(state?.registration, { type: "CustomerRegistered", data }, "customer");
  };
}

/** Changes the given details of a customer. Omitted details remain unchanged. */
export function decideChangeCustomer(change: {
  clinicId: string;
  customerId: string;
  details: Partial<CustomerDetails>;
}): CustomerDecision {
  return (state) => {
    const { customerId } = change;
    const customer = requireOwnedBy(change.clinicId, state, "customer");
    requireNotErased(customer, "customer");
    const details = { ...customer.details, ...change.details };
    if (isEqual(customer.details, details)) return [];
    return [{ type: "CustomerDetailsChanged", data: { customerId, ...details } }];
  };
}

/** Erases categories of a customer's data, also the data of the customer's animals, appointments and queue tickets. */
export function decideEraseCustomer(command: { clinicId: string; customerId: string } & Erasure): CustomerDecision {
  return (state) => {
    const { clinicId, customerId, ...requestedErasure } = command;
    const erasedData = requireOwnedBy(clinicId, state, "customer");
    const erasure = decideErasure(erasedData, requestedErasure);
    return erasure ? [{ type: "CustomerDataErased", data: { customerId, ...erasure } }] : [];
  };
}
