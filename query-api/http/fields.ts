import { z } from "zod";
import { MAX_WINDOW_DAYS } from "./parameters.ts";

export const uuid = z.guid();

/** RFC 3339 date-time in UTC, with milliseconds and `Z`. */
export const instant = z.iso.datetime({ precision: 3 });

export const calendarDate = z.iso.date();

export const clinicFields = {
  id: uuid,
  slug: z.string(),
  name: z.string(),
  timezone: z.string(),
  currency: z.string(),
  locale: z.string(),
  status: z.string(),
};

export const timeWindow = z.strictObject({
  from: instant.describe("Start of the window, inclusive."),
  to: instant.describe("End of the window, exclusive."),
  maximumDays: z.literal(MAX_WINDOW_DAYS).describe("Maximum length of a window, in days."),
});
