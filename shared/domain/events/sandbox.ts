import { z } from "zod";
import type { Instant } from "../time/rfc3339.ts";
import { appointmentCategory } from "./appointment.ts";
import { type Category, defineCategory, type EventOf } from "./category.ts";
import { resourceCategory, serviceCategory } from "./clinic.ts";
import { calendarDate, instant, uuid } from "./fields.ts";
import { animalCategory, customerCategory } from "./people.ts";

/** What a sandbox is filled with at a reset: events of these categories. */
const fixtureCategories = [
  serviceCategory,
  customerCategory,
  animalCategory,
  resourceCategory,
  appointmentCategory,
] as const;

/** One fact of a fixture: an event that stands in the reset instead of a stream of its own. */
export type FixtureFact = EventOf<(typeof fixtureCategories)[number]> & {
  /** When it happened, as the sandbox tells it. */
  at: Instant;
};

const schemas = new Map<string, z.ZodType>(
  (fixtureCategories as readonly Category[]).flatMap(({ events }) => Object.entries(events)),
);

const fixtureFact = z
  .object({ type: z.string(), data: z.unknown(), at: instant })
  .transform(({ type, data, at }, context) => {
    const read = schemas.get(type)?.safeParse(data);
    if (read?.success) return { type, data: read.data, at } as FixtureFact;
    context.addIssue({ code: "custom", message: `${type} is no fact that a fixture may hold` });
    return z.NEVER;
  });

/**
 * An application's own clinic to try things out. A reset is one event with the whole fixture in it, so that it happens
 * at once for everybody: for who writes by the event's append, for who reads by the one transaction that projects it.
 * Stream id: the application's.
 */
export const sandboxCategory = defineCategory("sandbox", {
  SandboxReset: z.object({
    applicationId: uuid,
    clinicId: uuid,
    /** From 1, by one at each reset. */
    generation: z.int().min(1),
    /** The day (UTC) that the fixture's times are about. */
    day: calendarDate,
    facts: z.array(fixtureFact),
  }),
});
export type SandboxEvent = EventOf<typeof sandboxCategory>;
