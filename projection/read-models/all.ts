import type { AnyReadModel } from "../engine/read-model.ts";
import { animalLinks } from "./animal-links.ts";
import { animals } from "./animals.ts";
import { applications } from "./applications.ts";
import { appointments } from "./appointments.ts";
import { assignments } from "./assignments.ts";
import { availabilityRules } from "./availability-rules.ts";
import { branches } from "./branches.ts";
import { clinicSelections } from "./clinic-selections.ts";
import { clinics } from "./clinics.ts";
import { customers } from "./customers.ts";
import { entitlements } from "./entitlements.ts";
import { erasures } from "./erasures.ts";
import { holds } from "./holds.ts";
import { installations } from "./installations.ts";
import { memberships } from "./memberships.ts";
import { publicEvents } from "./public-events.ts";
import { queueTickets } from "./queue-tickets.ts";
import { resources } from "./resources.ts";
import { sandboxes } from "./sandboxes.ts";
import { services } from "./services.ts";
import { staff } from "./staff.ts";
import { webhookEndpoints } from "./webhook-endpoints.ts";
import { webhookReplays } from "./webhook-replays.ts";
import { webhookSecrets } from "./webhook-secrets.ts";

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
