import type { Aggregate, Decision } from "../aggregate.ts";
import { isEqual } from "../equal.ts";
import type { DataOf } from "../events/category.ts";
import { type CustomerEvent, customerCategory } from "../events/people.ts";
import { registerIdempotently, requireOwnedBy } from "../preconditions.ts";

export type CustomerRegistration = DataOf<CustomerEvent, "CustomerRegistered">;
export type CustomerDetails = Omit<DataOf<CustomerEvent, "CustomerDetailsChanged">, "customerId">;

/** State of a customer, who owns animals and belongs to one clinic. */
export interface Customer {
  id: string;
  clinicId: string;
  registration: CustomerRegistration;
  details: CustomerDetails;
}

export const customerAggregate: Aggregate<typeof customerCategory, Customer> = {
  category: customerCategory,
  evolve(state, event) {
    if (event.type === "CustomerRegistered") {
      const { customerId: id, clinicId, ...details } = event.data;
      return { id, clinicId, registration: event.data, details };
    }
    const { customerId: _, ...details } = event.data;
    return state && { ...state, details };
  },
  personOf: ({ id }) => ({ type: "customer", id }),
};

type CustomerDecision = Decision<Customer, CustomerEvent>;

export function decideRegisterCustomer(data: CustomerRegistration): CustomerDecision {
  return (state) => registerIdempotently(state?.registration, { type: "CustomerRegistered", data }, "customer");
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
    const details = { ...customer.details, ...change.details };
    if (isEqual(customer.details, details)) return [];
    return [{ type: "CustomerDetailsChanged", data: { customerId, ...details } }];
  };
}
