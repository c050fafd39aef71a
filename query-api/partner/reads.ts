import type { PartnerReadId } from "../../shared/partner-api/writes.ts";
import { getAnimalLink } from "./get-animal-link.ts";
import { getPartnerAppointment } from "./get-appointment.ts";
import { getClinicContext } from "./get-clinic-context.ts";
import { getSandboxState } from "./get-sandbox-state.ts";
import { getWebhookDelivery } from "./get-webhook-delivery.ts";
import { getWebhookEndpoint } from "./get-webhook-endpoint.ts";
import { getWebhookReplay } from "./get-webhook-replay.ts";
import { listAnimalLinks } from "./list-animal-links.ts";
import { listPartnerAppointments } from "./list-appointments.ts";
import { listEvents } from "./list-events.ts";
import { listInstallations } from "./list-installations.ts";
import { listSlots } from "./list-slots.ts";
import { listWebhookDeliveries } from "./list-webhook-deliveries.ts";
import { listWebhookEndpoints } from "./list-webhook-endpoints.ts";
import type { PartnerRead } from "./read.ts";

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
