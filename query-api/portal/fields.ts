import { z } from "zod";
import { MAX_WINDOW_DAYS } from "../http/time-window.ts";

/** Schemas of fields that several portal responses contain. */

export const uuid = z.guid();

/** RFC 3339 in UTC with milliseconds and Z. */
export const instant = z.iso.datetime({ precision: 3 });

export const calendarDate = z.iso.date();

/** HH:MM:SS */
export const timeOfDay = z.iso.time({ precision: 0 });

/** First fields of every portal response. */
export const envelope = {
  ok: z.literal(true),
  apiVersion: z.literal("v1"),
  correlationId: z.uuid().describe("Id of the request."),
};

/** First fields of every portal response except availability. */
export const datedEnvelope = {
  ...envelope,
  generatedAt: instant.describe("Time at which the response was generated."),
};

export const page = z.strictObject({
  limit: z.int().min(1).describe("Maximum number of records in this response."),
  returned: z.int().min(0).describe("Number of records in this response. It is not a total count."),
});

export const timeWindow = z.strictObject({
  from: instant.describe("Start of the window, inclusive."),
  to: instant.describe("End of the window, exclusive."),
  maximumDays: z.literal(MAX_WINDOW_DAYS).describe("Maximum length of a window, in days."),
});
