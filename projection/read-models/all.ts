import type { AnyReadModel } from "../engine/read-model.ts";
import { animals } from "./animals.ts";
import { applications } from "./applications.ts";
import { appointments } from "./appointments.ts";
import { assignments } from "./assignments.ts";
import { branches } from "./branches.ts";
import { clinics } from "./clinics.ts";
import { customers } from "./customers.ts";
import { entitlements } from "./entitlements.ts";
import { installations } from "./installations.ts";
import { memberships } from "./memberships.ts";
import { resources } from "./resources.ts";
import { selections } from "./selections.ts";
import { webhookEndpoints } from "./webhook-endpoints.ts";
import { webhookSecrets } from "./webhook-secrets.ts";

/** Every read model there is. */
export const readModels = [
  clinics,
  branches,
  entitlements,
  memberships,
  selections,
  customers,
  animals,
  resources,
  appointments,
  assignments,
  applications,
  installations,
  webhookEndpoints,
  webhookSecrets,
] as unknown as readonly AnyReadModel[];
