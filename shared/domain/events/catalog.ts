import { appointmentCategory, holdCategory, queueTicketCategory } from "./appointment.ts";
import { auditAccessCategory, auditorCategory, auditTreeCategory } from "./audit.ts";
import type { EventOf } from "./category.ts";
import { clinicCategory, resourceCategory, serviceCategory } from "./clinic.ts";
import { parkingCategory } from "./parking.ts";
import {
  installationCategory,
  partnerApplicationCategory,
  webhookDeliveryCategory,
  webhookEndpointCategory,
  webhookEndpointPlacesCategory,
  webhookReplayCategory,
} from "./partner.ts";
import { animalCategory, customerCategory, membershipCategory, portalUserCategory, staffCategory } from "./people.ts";
import { sandboxCategory } from "./sandbox.ts";

/** Categories of all streams that this project writes. */
export const categories = [
  clinicCategory,
  serviceCategory,
  resourceCategory,
  membershipCategory,
  staffCategory,
  portalUserCategory,
  customerCategory,
  animalCategory,
  appointmentCategory,
  holdCategory,
  queueTicketCategory,
  partnerApplicationCategory,
  installationCategory,
  webhookEndpointCategory,
  webhookEndpointPlacesCategory,
  webhookDeliveryCategory,
  webhookReplayCategory,
  sandboxCategory,
  auditorCategory,
  auditAccessCategory,
  auditTreeCategory,
  parkingCategory,
] as const;

/** Union of all events, discriminated by `type`. Each event type belongs to exactly one category. */
export type CatalogEvent = EventOf<(typeof categories)[number]>;
export type CatalogEventType = CatalogEvent["type"];

const categoryNames = new Set<string>(categories.map(({ name }) => name));

/** Returns true if a stream belongs to a category of the catalog. Streams of other programs may be in the same log. */
export function isCatalogStream(stream: string): boolean {
  const separatorIndex = stream.indexOf("-");
  return separatorIndex > 0 && categoryNames.has(stream.slice(0, separatorIndex));
}
