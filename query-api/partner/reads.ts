import type { PartnerReadId } from "../../shared/partner-api/writes.ts";
import { getAnimalLink } from "./get-animal-link.ts";
import { getPartnerAppointment } from "./get-appointment.ts";
import { getClinicContext } from "./get-clinic-context.ts";
import { getSandboxState } from "./get-sandbox-state.ts";
import { getWebhookDelivery } from "./get-webhook-delivery.ts";
import { getApplicationWebhookEndpoint, getWebhookEndpoint } from "./get-webhook-endpoint.ts";
import { getWebhookReplay } from "./get-webhook-replay.ts";
import { listAnimalLinks } from "./list-animal-links.ts";
import { listPartnerAppointments } from "./list-appointments.ts";
import { listEvents } from "./list-events.ts";
import { listInstallations } from "./list-installations.ts";
import { listWebhookDeliveries } from "./list-webhook-deliveries.ts";
import { listApplicationWebhookEndpoints, listWebhookEndpoints } from "./list-webhook-endpoints.ts";
import { type PartnerRead, toApplicationRead } from "./read.ts";

const reads: Record<PartnerReadId, PartnerRead> = {
  listInstallations,
  getClinicContext,
  listPartnerAppointments,
  getPartnerAppointment,
  listEvents,
  listAnimalLinks,
  getAnimalLink,
  getSandboxState,
  listWebhookEndpoints,
  getWebhookEndpoint,
  listWebhookDeliveries,
  getWebhookDelivery,
  getWebhookReplay,
  listApplicationWebhookEndpoints,
  getApplicationWebhookEndpoint,
  listApplicationWebhookDeliveries: toApplicationRead(listWebhookDeliveries),
  getApplicationWebhookDelivery: toApplicationRead(getWebhookDelivery),
  getApplicationWebhookReplay: toApplicationRead(getWebhookReplay),
};

/** All read operations of the partner API. The file compiles only if every GET operation is listed. */
export const partnerReads: readonly PartnerRead[] = Object.values(reads);
