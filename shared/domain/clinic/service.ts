import { type Aggregate, createClinicRecorder, type Decision, defineAggregate } from "../aggregate.ts";
import type { DataOf } from "../events/category.ts";
import { type ServiceEvent, serviceStreams } from "../events/clinic.ts";
import { registerIdempotently } from "../preconditions.ts";
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

export const serviceAggregate: Aggregate<typeof serviceStreams, Service> = defineAggregate(
  serviceStreams,
  {
    ServiceOffered(offer) {
      const { serviceId: id, clinicId, price } = offer;
      return { id, clinicId, offer, price, active: true };
    },
  },
  {
    ServiceRepriced: ({ price }) => ({ price }),
    ServiceWithdrawn: () => ({ active: false }),
    ServiceReinstated: () => ({ active: true }),
  },
);

/** Adds a service to the clinic's catalog. The price is in the clinic's currency. */
export function offerService(
  offer: Omit<ServiceOffer, "currency">,
  { currency }: Clinic,
): Decision<Service, ServiceEvent> {
  const data = { ...offer, currency };
  return (state) => registerIdempotently(state?.offer, { type: "ServiceOffered", data }, "service");
}

const recordIf = createClinicRecorder(serviceAggregate, "service");

export const repriceService = recordIf("ServiceRepriced", (service, { price }) => service.price !== price);
export const withdrawService = recordIf("ServiceWithdrawn", ({ active }) => active);
export const reinstateService = recordIf("ServiceReinstated", ({ active }) => !active);
