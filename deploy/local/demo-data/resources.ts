import { addResource, setRule } from "../../../command/operations/catalog-operations.ts";
import type { DemoClinic } from "./clinics.ts";
import { demoId } from "./random.ts";
import type { Chain } from "./steps.ts";

const DAY = 86_400_000;

/** Type, name and capacity. Appointments use the first two, which are rooms. */
const RESOURCES = [
  ["room", "Room 1", 1],
  ["room", "Room 2", 1],
  ["practitioner", "Veterinarian on duty", 1],
  ["equipment", "X-ray", 1],
  ["ward", "Boarding ward", 8],
] as const;

/** Weekday (0 is Sunday), opening and closing time. */
const HOURS = [
  ...[1, 2, 3, 4, 5].flatMap((weekday) => [
    { weekday, startsAt: "08:00:00", endsAt: "12:30:00" },
    { weekday, startsAt: "13:30:00", endsAt: "18:00:00" },
  ]),
  { weekday: 6, startsAt: "09:00:00", endsAt: "14:00:00" },
  { weekday: 0, startsAt: "09:00:00", endsAt: "14:00:00" },
];

/** Returns the id of one of the two rooms of a branch. */
export function roomId(clinic: DemoClinic, branchId: string, room: 0 | 1): string {
  return demoId(clinic.slug, "resource", branchId, RESOURCES[room][1]);
}

/** Adds rooms, people, devices and wards to every branch, each with its opening hours. */
export function addResources(clinic: DemoClinic, now: number): Chain[] {
  return clinic.branches.flatMap(({ id: branchId }) =>
    RESOURCES.map(([resourceType, name, capacity]): Chain => {
      const { id: clinicId, slug } = clinic;
      const resourceId = demoId(slug, "resource", branchId, name);
      const of = { resourceId, clinicId, branchId };
      const addition = { ...of, resourceType, name, capacity, timezone: null, metadata: {} };
      const prefix = `${slug} ${branchId} ${name}`;
      const at = now - 370 * DAY;
      const rules = HOURS.map((hours, index): Chain[number] => {
        const ruleId = demoId(resourceId, "rule", index);
        const validity = { validFrom: null, validUntil: null, ruleType: "opening_hours", recurrence: null };
        const rule = { ruleId, ...hours, ...validity };
        return {
          name: `${prefix} rule ${index}`,
          at,
          run: (log, context) => setRule(log, { clinicId, resourceId, rule }, context),
        };
      });
      return [{ name: prefix, at, run: (log, context) => addResource(log, addition, context) }, ...rules];
    }),
  );
}
