import { registerApplication } from "../../../command/operations/application-operations.ts";
import { approveInstallation, requestInstallation } from "../../../command/operations/installation-operations.ts";
import { approveSandbox, fillSandbox, openSandboxClinic } from "../../../command/operations/sandbox-operations.ts";
import type { Environment } from "../../../shared/domain/events/fields.ts";
import { deriveSandboxClinicId, deriveSandboxEntityId } from "../../../shared/domain/events/ids.ts";
import { scopes } from "../../../shared/domain/events/partner.ts";
import { listSandboxBranches } from "../../../shared/domain/partner/sandbox-fixture.ts";
import { DAY_MS } from "../../../shared/domain/time/local-time.ts";
import { type DemoClinic, demoClinics } from "./clinics.ts";
import { listAnimals } from "./people.ts";
import { createStep, deriveDemoId, type StepSequence } from "./steps.ts";

interface DemoApplication {
  id: string;
  name: string;
  environment: Environment;
  clinic: DemoClinic;
}

const [lindenhof] = demoClinics;
if (!lindenhof) throw new Error("The demo data has no clinic.");

const sandboxApplicationId = deriveDemoId("application", "sandbox");

/** Clinic of the sandbox application. Most values are copied from a demo clinic. */
export const sandboxClinic: DemoClinic = {
  ...lindenhof,
  id: deriveSandboxClinicId(sandboxApplicationId),
  slug: "sandbox-clinic",
  name: "Sandbox Clinic",
  branches: listSandboxBranches(sandboxApplicationId),
};

export const demoApplications: DemoApplication[] = [
  { id: deriveDemoId("application", "production"), name: "Pet Planner", environment: "production", clinic: lindenhof },
  { id: sandboxApplicationId, name: "Pet Planner (sandbox)", environment: "sandbox", clinic: sandboxClinic },
];

export function findExampleAnimalId({ id, environment, clinic }: DemoApplication): string {
  if (environment === "sandbox") return deriveSandboxEntityId(id, "animal", "Biscuit");
  const [animal] = listAnimals(clinic);
  if (!animal) throw new Error(`${clinic.slug} has no animal`);
  return animal.id;
}

/**
 * Creates the sandbox and then registers its application. Each step is one append, so no step is ever partly complete.
 */
export function setUpSandbox(now: number): StepSequence {
  const input = { applicationId: sandboxApplicationId, scopes: [...scopes] };
  const registration = { ...input, environment: "sandbox" as const, name: "Pet Planner (sandbox)" };
  return [
    createStep("sandbox clinic", now, openSandboxClinic, input),
    createStep("sandbox filled", now, fillSandbox, input),
    createStep("sandbox approved", now, approveSandbox, input),
    createStep("sandbox application", now, registerApplication, registration),
  ];
}

/** Registers a production application and installs it at its clinic with all scopes. The clinic's owner approves. */
export function installApplication(application: DemoApplication, now: number): StepSequence {
  const { id: applicationId, name, environment, clinic } = application;
  const registeredAt = now - 90 * DAY_MS;
  const installationIds = { applicationId, clinicId: clinic.id };
  const approval = {
    ...installationIds,
    animalAccess: "all" as const,
    membershipId: deriveDemoId(clinic.slug, "membership", "owner"),
  };
  const registration = { applicationId, environment, name, scopes: [...scopes] };
  return [
    createStep(name, registeredAt, registerApplication, registration),
    createStep(`${name} asks`, registeredAt + DAY_MS, requestInstallation, installationIds),
    createStep(`${name} approved`, registeredAt + 2 * DAY_MS, approveInstallation, approval),
  ];
}
