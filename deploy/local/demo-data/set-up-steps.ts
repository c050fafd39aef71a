import { offerService, withdrawService } from "../../../command/operations/catalog-operations.ts";
import {
  changeSubscription,
  openBranch,
  registerClinic,
  setEntitlement,
  suspendClinic,
} from "../../../command/operations/clinic-operations.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import type { DemoClinic } from "./clinics.ts";
import { demoId } from "./random.ts";
import type { Chain, Step } from "./steps.ts";

const DAY = 86_400_000;

/** Registers a demo clinic, 400 days ago, with branches, subscription and entitlements. */
export function setUpClinic(clinic: DemoClinic, now: number): Chain {
  const at = now - 400 * DAY;
  const { id: clinicId, slug, name, timezone, currency, locale, city, demoDays } = clinic;
  const step = (what: string, run: Step["run"]): Step => ({ name: `${slug} ${what}`, at, run });
  const entitlement = (key: string, limit: number | null) =>
    step(key, (log, context) =>
      setEntitlement(log, { clinicId, key, enabled: true, limit, effectiveUntil: null }, context),
    );
  const demoExpiresAt = demoDays === null ? null : toInstant(now + demoDays * DAY);
  const registration = {
    ...{ clinicId, environment: "production" as const, slug, name, timezone, currency, locale, city },
    ...{ isDemo: demoDays !== null, demoExpiresAt },
  };
  const subscription = {
    clinicId,
    plan: clinic.plan,
    status: demoDays === null ? ("active" as const) : ("trialing" as const),
    currentPeriodEnd: toInstant(now + (demoDays ?? 200) * DAY),
  };
  return [
    step("registered", (log, context) => registerClinic(log, registration, context)),
    ...clinic.branches.map((branch) =>
      step(`branch ${branch.name}`, (log, context) =>
        openBranch(log, { clinicId, branchId: branch.id, name: branch.name, city: branch.city }, context),
      ),
    ),
    step("subscribed", (log, context) => changeSubscription(log, subscription, context)),
    entitlement("scheduling.advanced", null),
    entitlement("staff.seats", 25),
  ];
}

/** Suspends a clinic yesterday, after all other steps, if its final status is suspended. */
export function suspendDemoClinic({ id: clinicId, slug, status }: DemoClinic, now: number): Chain {
  if (status !== "suspended") return [];
  const reason = "Invoice overdue";
  return [
    {
      name: `${slug} suspended`,
      at: now - DAY,
      run: (log, context) => suspendClinic(log, { clinicId, reason }, context),
    },
  ];
}

/** Name, category, and factor on the base price. The last service is withdrawn. */
const CATALOG = [
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

/** Adds the clinic's services. The last one is withdrawn. */
export function offerServices({ id: clinicId, slug, basePrice }: DemoClinic, now: number): Chain[] {
  return CATALOG.map(([name, category, share], index) => {
    const serviceId = demoId(slug, "service", name);
    const price = Math.round(basePrice * share * 100) / 100;
    const taxable = category !== null;
    const offer = { serviceId, clinicId, name, category, price, taxable };
    const chain: Chain = [
      {
        name: `${slug} service ${name}`,
        at: now - (390 - index) * DAY,
        run: (log, context) => offerService(log, offer, context),
      },
    ];
    if (index === CATALOG.length - 1)
      chain.push({
        name: `${slug} service ${name} withdrawn`,
        at: now - 30 * DAY,
        run: (log, context) => withdrawService(log, { clinicId, serviceId }, context),
      });
    return chain;
  });
}
