import type { Aggregate, Decision } from "../aggregate.ts";
import type { DataOf } from "../events/category.ts";
import { type ServiceEvent, serviceStreams } from "../events/clinic.ts";
import { registerIdempotently, requireOwnedBy } from "../preconditions.ts";
import type { Clinic } from "./clinic.ts";

type ServiceOffer = DataOf<ServiceEvent, "ServiceOffered">;

/** State of a service in a clinic's catalog. */
export interface Service {
  id: string;
  clinicId: string;
  offer: ServiceOffer;
  price: number;
  active: boolean;
}

export const serviceAggregate: Aggregate<typeof serviceStreams, Service> = {
  category: serviceStreams,
  evolve(state, event) {
    if (event.type === "ServiceOffered") {
      const { serviceId: id, clinicId, price } = event.data;
      return { id, clinicId, offer: event.data, price, active: true };
    }
    if (!state) return undefined;
    switch (event.type) {
      case "ServiceRepriced":
        return { ...state, price: event.data.price };
      case "ServiceWithdrawn":
        return { ...state, active: false };
      case "ServiceReinstated":
        return { ...state, active: true };
    }
  },
};

type ServiceDecision = Decision<Service, ServiceEvent>;

/** Identifies a service of a clinic. */
type ServiceRef = { clinicId: string; serviceId: string };

/** Adds a service to the clinic's catalog. The price is in the clinic's currency. */
export function decideOfferService(offer: Omit<ServiceOffer, "currency">, clinic: Clinic): ServiceDecision {
  const data = { ...offer, currency: clinic.currency };
  return (state) => registerIdempotently(state?.offer, { type: "ServiceOffered", data }, "service");
}

export function decideRepriceService(change: ServiceRef & { price: number }): ServiceDecision {
  return (state) => {
    const { clinicId, serviceId, price } = change;
    if (requireOwnedBy(clinicId, state, "service").price === price) return [];
    return [{ type: "ServiceRepriced", data: { serviceId, price } }];
  };
}

export function decideWithdrawService({ clinicId, serviceId }: ServiceRef): ServiceDecision {
  return (state) => {
    if (!requireOwnedBy(clinicId, state, "service").active) return [];
    return [{ type: "ServiceWithdrawn", data: { serviceId } }];
  };
}

export function decideReinstateService({ clinicId, serviceId }: ServiceRef): ServiceDecision {
  return (state) => {
    if (requireOwnedBy(clinicId, state, "service").active) return [];
    return [{ type: "ServiceReinstated", data: { serviceId } }];
  };
}
