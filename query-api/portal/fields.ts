import { z } from "zod";
import { MAXIMUM_DAYS } from "../http/time-window.ts";

/** Schemas that the portal's responses share. */

export const uuid = z.guid();

/** RFC 3339 in UTC with milliseconds and Z. */
export const instant = z.iso.datetime({ precision: 3 });

export const calendarDate = z.iso.date();

/** HH:MM:SS */
export const timeOfDay = z.iso.time({ precision: 0 });

/** First fields of every body. */
export const envelope = { ok: z.literal(true), apiVersion: z.literal("v1"), correlationId: z.uuid() };

/** First fields of every body except availability's. */
export const datedEnvelope = { ...envelope, generatedAt: instant };

export const page = z.strictObject({ limit: z.int().min(1), returned: z.int().min(0) });

export const timeWindow = z.strictObject({
  from: instant,
  to: instant,
  maximumDays: z.literal(MAXIMUM_DAYS),
});
