import { z } from "zod";

/** Schema of the field `page` of a list with cursors. */
export const partnerPage = z.strictObject({
  limit: z.int().min(1).describe("Maximum number of records in this page."),
  returned: z.int().min(0).describe("Number of records in this page."),
  nextCursor: z
    .string()
    .nullable()
    .describe("Value for `cursor` to get the next page. Null on the last page."),
});
