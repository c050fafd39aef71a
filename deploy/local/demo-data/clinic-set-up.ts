import { addResource, offerService, setRule, withdrawService } from "../../../command/operations/catalog-operations.ts";
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
import { createStep, deriveDemoId, type StepSequence } from "./steps.ts";

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
    clinicId,
    environment: "production" as const,
    slug,
    name,
    timezone,
    currency,
    locale,
    city,
    isDemo: demoDays !== null,
    demoExpiresAt,
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

/** Suspends the clinic one day ago if its demo status is `suspended`. Must run after the clinic's data is complete. */
export function suspendDemoClinic({ id: clinicId, slug, status }: DemoClinic, now: number): StepSequence {
  if (status !== "suspended") return [];
  const suspension = { clinicId, reason: "Invoice overdue" };
  return [createStep(`${slug} suspended`, now - DAY_MS, suspendClinic, suspension)];
}

/** Prices are multiples of the clinic's base price. */
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

/** The first two resources are rooms, which appointments use. */
const RESOURCES = [
  ["room", "Room 1", 1],
  ["room", "Room 2", 1],
  ["practitioner", "Veterinarian on duty", 1],
  ["equipment", "X-ray", 1],
  ["ward", "Boarding ward", 8],
] as const;

/** Weekday 0 is Sunday. */
const OPENING_HOURS = [
  ...[1, 2, 3, 4, 5].flatMap((weekday) => [
    { weekday, startsAt: "08:00:00", endsAt: "12:30:00" },
    { weekday, startsAt: "13:30:00", endsAt: "18:00:00" },
  ]),
  { weekday: 6, startsAt: "09:00:00", endsAt: "14:00:00" },
  { weekday: 0, startsAt: "09:00:00", endsAt: "14:00:00" },
];

export function deriveRoomId(clinic: DemoClinic, branchId: string, roomIndex: 0 | 1): string {
  return deriveDemoId(clinic.slug, "resource", branchId, RESOURCES[roomIndex][1]);
}

export function addResources(clinic: DemoClinic, now: number): StepSequence[] {
  return clinic.branches.flatMap(({ id: branchId }) =>
    RESOURCES.map(([resourceType, name, capacity]) => {
      const { id: clinicId, slug } = clinic;
      const resourceId = deriveDemoId(slug, "resource", branchId, name);
      const ids = { resourceId, clinicId, branchId };
      const resourceInput = { ...ids, resourceType, name, capacity, timezone: null, metadata: {} };
      const prefix = `${slug} ${branchId} ${name}`;
      const addedAt = now - 370 * DAY_MS;
      const ruleSteps = OPENING_HOURS.map((hours, index) => {
        const ruleId = deriveDemoId(resourceId, "rule", index);
        const validity = { validFrom: null, validUntil: null, ruleType: "opening_hours", recurrence: null };
        const rule = { clinicId, resourceId, ruleId, ...hours, ...validity };
        return createStep(`${prefix} rule ${index}`, addedAt, setRule, rule);
      });
      return [createStep(prefix, addedAt, addResource, resourceInput), ...ruleSteps];
    }),
  );
}
