import { z } from "zod";
import { notPersonal } from "../personal-data/declaration.ts";
import type { Instant } from "../time/rfc3339.ts";
import { appointmentStreams } from "./appointment.ts";
import { type Category, completeEvents, defineCategory, type EventOf } from "./category.ts";
import { resourceStreams, serviceStreams } from "./clinic.ts";
import { calendarDate, instant, uuid } from "./fields.ts";
import { deriveSandboxClinicId } from "./ids.ts";
import { animalStreams, customerStreams } from "./people.ts";

/** Categories of the events that a sandbox's fixture data may contain. */
const fixtureCategories = [
  serviceStreams,
  customerStreams,
  animalStreams,
  resourceStreams,
  appointmentStreams,
] as const;

/** An event of the fixture data. The event is stored inside a `SandboxReset` event, not in a separate stream. */
export type FixtureEvent = EventOf<(typeof fixtureCategories)[number]> & {
  /** Time of the event in the sandbox. */
  at: Instant;
};

const schemasByType = new Map<string, z.ZodType>(
  (fixtureCategories as readonly Category[]).flatMap(({ events }) => Object.entries(events)),
);

const fixtureEvent = z
  .object({ type: z.string(), data: z.unknown(), at: instant })
  .transform(({ type, data, at }, context) => {
    const parseResult = schemasByType.get(type)?.safeParse(data);
    if (parseResult?.success) return { type, data: parseResult.data, at } as FixtureEvent;
    context.addIssue({
      code: "custom",
      message: `${type} is not allowed in fixture data, or has invalid data`,
    });
    return z.NEVER;
  });

/**
 * Events of a sandbox: a clinic in which one application can be tested. A reset is one event with all fixture data. A
 * reset is therefore atomic, both in the event log and in the read models. Stream id: id of the application.
 */
export const sandboxStreams = defineCategory("sandbox", "applicationId", completeEvents, {
  SandboxReset: z
    .object({
      applicationId: uuid,
      clinicId: uuid,
      /** Number of the reset, starting at 1. */
      generation: z.int().min(1),
      /** Day (UTC) that all times of the fixture data are relative to. */
      day: calendarDate,
      events: notPersonal(z.array(fixtureEvent), "fictional data"),
    })
    // A reset deletes rows of the clinic.
    .refine(({ applicationId, clinicId }) => clinicId === deriveSandboxClinicId(applicationId), {
      path: ["clinicId"],
      message: "must be the clinic of the application's sandbox",
    }),
});
export type SandboxEvent = EventOf<typeof sandboxStreams>;
