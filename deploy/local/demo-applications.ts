import { changeSubscription, openBranch, registerClinic } from "../../command/clinic/clinic-operations.ts";
import { registerApplication } from "../../command/partner/application-operations.ts";
import { approveInstallation, requestInstallation } from "../../command/partner/installation-operations.ts";
import type { Environment } from "../../shared/events/fields.ts";
import { scopes } from "../../shared/events/partner.ts";
import { demoAnimals, registerCustomers } from "./demo-animals.ts";
import { type DemoClinic, demoClinics } from "./demo-clinics.ts";
import { demoId } from "./demo-random.ts";
import type { Chain } from "./demo-steps.ts";

const DAY = 86_400_000;

export interface DemoApplication {
  id: string;
  name: string;
  environment: Environment;
  clinic: DemoClinic;
  /** The membership of the clinic's administrator who approves. */
  approver: string;
}

const [lindenhof] = demoClinics;
if (!lindenhof) throw new Error("the demo data has no clinic");

/** The sandbox application's own clinic: one branch, a few customers. */
export const sandboxClinic: DemoClinic = {
  ...lindenhof,
  id: demoId("sandbox"),
  slug: "sandbox-clinic",
  name: "Sandbox Clinic",
  branches: [{ id: demoId("sandbox", "branch"), name: "Main", city: "Berlin" }],
  customers: 2,
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
    id: demoId("application", "sandbox"),
    name: "Pet Planner (sandbox)",
    environment: "sandbox",
    clinic: sandboxClinic,
    approver: demoId(sandboxClinic.slug, "membership", "owner"),
  },
];

/** The animal that examples book for. */
export function exampleAnimal({ clinic }: DemoApplication): string {
  const [animal] = demoAnimals(clinic);
  if (!animal) throw new Error(`${clinic.slug} has no animal`);
  return animal.id;
}

/** Registers the sandbox application's clinic, then its customers and animals. */
export function setUpSandbox(now: number): Chain {
  const { id: clinicId, branches, timezone, currency, locale, slug, name, city } = sandboxClinic;
  const registration = {
    ...{ clinicId, environment: "sandbox" as const, slug, name, timezone, currency, locale, city },
    ...{ isDemo: false, demoExpiresAt: null },
  };
  const subscription = { plan: sandboxClinic.plan, status: "active" as const, currentPeriodEnd: null };
  const at = now - 400 * DAY;
  return [
    { name: slug, at, run: (log, context) => registerClinic(log, registration, context) },
    ...branches.map(({ id: branchId, name, city }): Chain[number] => ({
      name: `${slug} ${name}`,
      at,
      run: (log, context) => openBranch(log, { clinicId, branchId, name, city }, context),
    })),
    {
      name: `${slug} subscribed`,
      at,
      run: (log, context) => changeSubscription(log, { clinicId, ...subscription }, context),
    },
    ...registerCustomers(sandboxClinic, now).flat(),
  ];
}

/** Registers the application and has it installed at its clinic, with every scope. */
export function install(
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
