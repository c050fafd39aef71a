import { addResource, setRule } from "../../../command/operations/catalog-operations.ts";
import { DAY_MS } from "../../../shared/domain/time/local-time.ts";
import type { DemoClinic } from "./clinics.ts";
import { deriveDemoId } from "./random.ts";
import { createStep, type StepSequence } from "./steps.ts";

/** Type, name and capacity of each resource. The first two resources are rooms, which appointments use. */
const RESOURCES = [
  ["room", "Room 1", 1],
  ["room", "Room 2", 1],
  ["practitioner", "Veterinarian on duty", 1],
  ["equipment", "X-ray", 1],
  ["ward", "Boarding ward", 8],
] as const;

/** Opening and closing times of a resource on each weekday. Weekday 0 is Sunday. */
const OPENING_HOURS = [
  ...[1, 2, 3, 4, 5].flatMap((weekday) => [
    { weekday, startsAt: "08:00:00", endsAt: "12:30:00" },
    { weekday, startsAt: "13:30:00", endsAt: "18:00:00" },
  ]),
  { weekday: 6, startsAt: "09:00:00", endsAt: "14:00:00" },
  { weekday: 0, startsAt: "09:00:00", endsAt: "14:00:00" },
];

/** Returns the id of one of the two rooms of a branch. */
export function deriveRoomId(clinic: DemoClinic, branchId: string, roomIndex: 0 | 1): string {
  return deriveDemoId(clinic.slug, "resource", branchId, RESOURCES[roomIndex][1]);
}

/** Adds the resources and their opening hours to every branch. */
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
        const rule = { ruleId, ...hours, ...validity };
        return createStep(`${prefix} rule ${index}`, addedAt, setRule, { clinicId, resourceId, rule });
      });
      return [createStep(prefix, addedAt, addResource, resourceInput), ...ruleSteps];
    }),
  );
}
