import { z } from "zod";
import { MAXIMUM_DAYS } from "../http/time-window.ts";

/** Shapes that the portal's response schemas share. */

export const uuid = z.guid();

/** RFC 3339, UTC, milliseconds, Z. */
export const instant = z.iso.datetime({ precision: 3 });

export const calendarDate = z.iso.date();

/** HH:MM:SS */
export const timeOfDay = z.iso.time({ precision: 0 });

/** What the body of every answer starts with. */
export const envelope = { ok: z.literal(true), apiVersion: z.literal("v1"), correlationId: z.uuid() };

/** …and of all but availability. */
export const datedEnvelope = { ...envelope, generatedAt: instant };

export const page = z.strictObject({ limit: z.int().min(1), returned: z.int().min(0) });

export const timeWindow = z.strictObject({
  from: instant,
  to: instant,
  maximumDays: z.literal(MAXIMUM_DAYS),
});
