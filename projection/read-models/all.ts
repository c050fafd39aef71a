import type { AnyReadModel } from "../engine/read-model.ts";
import { animalLinks, animals } from "./animals.ts";
import { applications, installations, sandboxes } from "./applications.ts";
import { appointments, assignments } from "./appointments.ts";
import { branches, clinicSelections, clinics, entitlements } from "./clinics.ts";
import { customers } from "./customers.ts";
import { erasures } from "./erasures.ts";
import { publicEvents } from "./public-events.ts";
import { queueTickets } from "./queue-tickets.ts";
import { availabilityRules, holds, resources, services } from "./resources.ts";
import { memberships, staff } from "./staff.ts";
import { webhookEndpoints, webhookReplays, webhookSecrets } from "./webhook-endpoints.ts";

export const readModels = [
  clinics,
  branches,
  entitlements,
  services,
  memberships,
  staff,
  clinicSelections,
  customers,
  animals,
  animalLinks,
  resources,
  availabilityRules,
  appointments,
  assignments,
  holds,
  queueTickets,
  applications,
  installations,
  webhookEndpoints,
  webhookSecrets,
  webhookReplays,
  sandboxes,
  publicEvents,
  erasures,
] as unknown as readonly AnyReadModel[];
