import type { PartnerReadId } from "../../shared/partner-api/writes.ts";
import { getAnimalLink, listAnimalLinks } from "./animal-links.ts";
import { getPartnerAppointment, listPartnerAppointments } from "./appointments.ts";
import { getClinicContext, getSandboxState, listInstallations } from "./clinic.ts";
import { listEvents } from "./list-events.ts";
import { listSlots } from "./list-slots.ts";
import type { PartnerRead } from "./read.ts";
import { listWebhookDeliveries } from "./webhook-deliveries.ts";
import { getWebhookDelivery } from "./webhook-delivery.ts";
import { getWebhookEndpoint, getWebhookReplay, listWebhookEndpoints } from "./webhook-endpoints.ts";

const reads: Record<PartnerReadId, PartnerRead> = {
  listInstallations,
  getClinicContext,
  listPartnerAppointments,
  getPartnerAppointment,
  listSlots,
  listEvents,
  listAnimalLinks,
  getAnimalLink,
  getSandboxState,
  listWebhookEndpoints,
  getWebhookEndpoint,
  listWebhookDeliveries,
  getWebhookDelivery,
  getWebhookReplay,
};

/** All read operations of the partner API. The file compiles only if every GET operation is listed. */
export const partnerReads: readonly PartnerRead[] = Object.values(reads);
