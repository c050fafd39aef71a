import { registerApplication } from "../../../command/operations/application-operations.ts";
import {
  approveInstallation,
  requestInstallation,
} from "../../../command/operations/installation-operations.ts";
import {
  approveSandbox,
  fillSandbox,
  openSandboxClinic,
} from "../../../command/operations/sandbox-operations.ts";
import type { Environment } from "../../../shared/domain/events/fields.ts";
import { sandboxClinicId, sandboxEntityId } from "../../../shared/domain/events/ids.ts";
import { scopes } from "../../../shared/domain/events/partner.ts";
import { listSandboxBranches } from "../../../shared/domain/partner/sandbox-fixture.ts";
import { listAnimals } from "./animals.ts";
import { type DemoClinic, demoClinics } from "./clinics.ts";
import { demoId } from "./random.ts";
import type { Chain } from "./steps.ts";

const DAY = 86_400_000;

export interface DemoApplication {
  id: string;
  name: string;
  environment: Environment;
  clinic: DemoClinic;
  /** Membership of the administrator who approves the installation. */
  approver: string;
}

const [lindenhof] = demoClinics;
if (!lindenhof) throw new Error("the demo data has no clinic");

const sandboxApplication = demoId("application", "sandbox");

/** Clinic of the sandbox application, with the data that its portal user and the examples need. */
export const sandboxClinic: DemoClinic = {
  ...lindenhof,
  id: sandboxClinicId(sandboxApplication),
  slug: "sandbox-clinic",
  name: "Sandbox Clinic",
  branches: listSandboxBranches(sandboxApplication),
};

export const demoApplications: DemoApplication[] = [
  {
    id: demoId("application", "production"),
    name: "Pet Planner",
    environment: "production",
    clinic: lindenhof,
    approver: demoId(lindenhof.slug, "membership", "owner"),
  },
  {
    id: sandboxApplication,
    name: "Pet Planner (sandbox)",
    environment: "sandbox",
    clinic: sandboxClinic,
    approver: demoId(sandboxClinic.slug, "membership", "owner"),
  },
];

/** Returns the animal that examples use. */
export function findExampleAnimal({ id, environment, clinic }: DemoApplication): string {
  if (environment === "sandbox") return sandboxEntityId(id, "animal", "Biscuit");
  const [animal] = listAnimals(clinic);
  if (!animal) throw new Error(`${clinic.slug} has no animal`);
  return animal.id;
}

/** Registers the sandbox application and its sandbox. Each step is one append, so no step can be half done. */
export function setUpSandbox(now: number): Chain {
  const input = { applicationId: sandboxApplication, scopes: [...scopes] };
  const registration = { ...input, environment: "sandbox" as const, name: "Pet Planner (sandbox)" };
  const step = (name: string, run: Chain[number]["run"]) => ({ name: `sandbox ${name}`, at: now, run });
  return [
    step("clinic", (log, context) => openSandboxClinic(log, input, context)),
    step("filled", (log, context) => fillSandbox(log, input, context)),
    step("approved", (log, context) => approveSandbox(log, input, context)),
    step("application", (log, context) => registerApplication(log, registration, context)),
  ];
}

/** Registers a production application and installs it at its clinic with all scopes. */
export function installApplication(
  { id: applicationId, name, environment, clinic, approver }: DemoApplication,
  now: number,
): Chain {
  const at = now - 90 * DAY;
  const of = { applicationId, clinicId: clinic.id };
  const registration = { applicationId, environment, name, scopes: [...scopes] };
  return [
    { name, at, run: (log, context) => registerApplication(log, registration, context) },
    { name: `${name} asks`, at: at + DAY, run: (log, context) => requestInstallation(log, of, context) },
    {
      name: `${name} approved`,
      at: at + 2 * DAY,
      run: (log, context) => approveInstallation(log, { ...of, membershipId: approver }, context),
    },
  ];
}
