import { type Aggregate, createClinicRecorder, type Decision, defineAggregate } from "../aggregate.ts";
import { isEqual } from "../equal.ts";
import type { DataOf } from "../events/category.ts";
import { type CustomerEvent, customerStreams } from "../events/people.ts";
import {
  addErasure,
  type ErasedData,
  isErasureNeeded,
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

export const customerAggregate: Aggregate<typeof customerStreams, Customer> = defineAggregate(
  customerStreams,
  {
    CustomerRegistered(registration) {
      const { customerId: id, clinicId, ...details } = registration;
      return { id, clinicId, registration, details, ...NOTHING_ERASED };
    },
  },
  {
    CustomerDetailsChanged: ({ customerId: _, ...details }) => ({ details }),
    CustomerDataErased: (erasure, customer) => addErasure(customer, erasure),
  },
  { personOf: ({ id }) => ({ type: "customer", id }) },
);

type CustomerDecision = Decision<Customer, CustomerEvent>;

export function registerCustomer(data: CustomerRegistration): CustomerDecision {
  return (state) => {
    if (state) requireNotErased(state, "customer");
    return registerIdempotently(state?.registration, { type: "CustomerRegistered", data }, "customer");
  };
}

/** Changes the given details of a customer. Omitted details remain unchanged. */
export function changeCustomer({
  clinicId,
  customerId,
  ...changes
}: { clinicId: string; customerId: string } & Partial<CustomerDetails>): CustomerDecision {
  return (state) => {
    const customer = requireOwnedBy(clinicId, state, "customer");
    requireNotErased(customer, "customer");
    const details = { ...customer.details, ...changes };
    if (isEqual(customer.details, details)) return [];
    return [{ type: "CustomerDetailsChanged", data: { customerId, ...details } }];
  };
}

/** Erases categories of the data of a customer and of the customer's animals, appointments and queue tickets. */
export const eraseCustomer = createClinicRecorder(customerAggregate, "customer")("CustomerDataErased", isErasureNeeded);
