import { z } from "zod";

/** The page of a list that goes on by cursor. */
export const partnerPage = z.strictObject({
  limit: z.int().min(1),
  returned: z.int().min(0),
  /** Null on the last page. */
  nextCursor: z.string().nullable(),
});
