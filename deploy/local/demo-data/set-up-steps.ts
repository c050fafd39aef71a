import { offerService, withdrawService } from "../../../command/operations/catalog-operations.ts";
import {
  changeSubscription,
  openBranch,
  registerClinic,
  setEntitlement,
  suspendClinic,
} from "../../../command/operations/clinic-operations.ts";
import { DAY_MS } from "../../../shared/domain/time/local-time.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import type { DemoClinic } from "./clinics.ts";
import { deriveDemoId } from "./random.ts";
import { createStep, type StepSequence } from "./steps.ts";

/** Registers a demo clinic with its branches, subscription and entitlements. The events are 400 days old. */
export function setUpClinic(clinic: DemoClinic, now: number): StepSequence {
  const registeredAt = now - 400 * DAY_MS;
  const { id: clinicId, slug, name, timezone, currency, locale, city, demoDays } = clinic;
  const createEntitlementStep = (key: string, limit: number | null) => {
    const entitlement = { clinicId, key, enabled: true, limit, effectiveUntil: null };
    return createStep(`${slug} ${key}`, registeredAt, setEntitlement, entitlement);
  };
  const demoExpiresAt = demoDays === null ? null : toInstant(now + demoDays * DAY_MS);
  const registration = {
    ...{ clinicId, environment: "production" as const, slug, name, timezone, currency, locale, city },
    ...{ isDemo: demoDays !== null, demoExpiresAt },
  };
  const subscription = {
    clinicId,
    plan: clinic.plan,
    status: demoDays === null ? ("active" as const) : ("trialing" as const),
    currentPeriodEnd: toInstant(now + (demoDays ?? 200) * DAY_MS),
  };
  return [
    createStep(`${slug} registered`, registeredAt, registerClinic, registration),
    ...clinic.branches.map(({ id: branchId, ...branch }) =>
      createStep(`${slug} branch ${branch.name}`, registeredAt, openBranch, { clinicId, branchId, ...branch }),
    ),
    createStep(`${slug} subscribed`, registeredAt, changeSubscription, subscription),
    createEntitlementStep("scheduling.advanced", null),
    createEntitlementStep("staff.seats", 25),
  ];
}

/**
 * Suspends the clinic if its demo status is `suspended`. The event is one day old. This step runs after the steps that
 * add the clinic's data.
 */
export function suspendDemoClinic({ id: clinicId, slug, status }: DemoClinic, now: number): StepSequence {
  if (status !== "suspended") return [];
  const suspension = { clinicId, reason: "Invoice overdue" };
  return [createStep(`${slug} suspended`, now - DAY_MS, suspendClinic, suspension)];
}

/** Name, category and price of each service. Prices are multiples of the clinic's base price. */
const SERVICE_CATALOG = [
  ["Consultation", "Consultations", 1],
  ["Follow-up consultation", "Consultations", 0.6],
  ["Emergency consultation", "Consultations", 2.2],
  ["Vaccination, dog", "Preventive care", 1.4],
  ["Vaccination, cat", "Preventive care", 1.25],
  ["Microchip", "Preventive care", 1.1],
  ["Dental cleaning", "Dentistry", 6.5],
  ["X-ray, two views", "Imaging", 3.4],
  ["Ultrasound, abdomen", "Imaging", 3.9],
  ["Blood panel", "Laboratory", 2.7],
  ["Neutering, cat", "Surgery", 4.8],
  ["Neutering, dog", "Surgery", 9.5],
  ["Nail trim", null, 0.4],
  ["Boarding, per night", "Boarding", 0.9],
] as const;

/** Adds the clinic's services, and withdraws the last service. */
export function offerServices({ id: clinicId, slug, basePrice }: DemoClinic, now: number): StepSequence[] {
  return SERVICE_CATALOG.map(([name, category, priceFactor], index) => {
    const serviceId = deriveDemoId(slug, "service", name);
    const price = Math.round(basePrice * priceFactor * 100) / 100;
    const taxable = category !== null;
    const offerInput = { serviceId, clinicId, name, category, price, taxable };
    const stepName = `${slug} service ${name}`;
    const offerStep = createStep(stepName, now - (390 - index) * DAY_MS, offerService, offerInput);
    if (index < SERVICE_CATALOG.length - 1) return [offerStep];
    const serviceIds = { clinicId, serviceId };
    return [offerStep, createStep(`${stepName} withdrawn`, now - 30 * DAY_MS, withdrawService, serviceIds)];
  });
}
