import { getClinicContext } from "./get-clinic-context.ts";
import { listPartnerAppointments } from "./list-appointments.ts";
import { listWebhookDeliveries } from "./list-webhook-deliveries.ts";
import { listWebhookEndpoints } from "./list-webhook-endpoints.ts";
import type { AnyPartnerRead } from "./read.ts";

/** Every read of the partner API. */
export const partnerReads = [
  getClinicContext,
  listPartnerAppointments,
  listWebhookEndpoints,
  listWebhookDeliveries,
] as unknown as readonly AnyPartnerRead[];
