import { z } from "zod";

export const FORMAT = "clinic-service-audit-export/1";

const hash = z.string().regex(/^[0-9a-f]{64}$/, "must be a SHA-256 in hex");
const instant = z.iso.datetime({ precision: 3 });
const place = z.strictObject({ position: z.string().regex(/^\d+$/, "must be a position"), id: z.string() });

/** What an export is and holds: the last line of the file says it, signed. */
export const manifest = z.strictObject({
  format: z.literal(FORMAT),
  clinicId: z.guid(),
  /** By when the log took them: from inclusive (null: the log's beginning), to exclusive. */
  stored: z.strictObject({ from: instant.nullable(), to: instant }),
  count: z.int().min(0),
  first: place.nullable(),
  last: place.nullable(),
  /** The last link of the chain. */
  chain: hash,
  /** Along the chain, to find the first line that is another one where somebody made the chain anew. */
  marks: z.strictObject({
    every: z.int().min(1),
    links: z.array(z.string().regex(/^[0-9a-f]{16}$/, "must be 16 hex digits")),
  }),
  /** When and by whom, and where the log ended then: all that differs when the same range is exported again. */
  made: z.strictObject({
    at: instant,
    by: z.strictObject({ type: z.string(), id: z.string() }),
    accessId: z.string(),
    logEnd: z.string().regex(/^\d+$/, "must be a position"),
  }),
});
export type Manifest = z.infer<typeof manifest>;

/** A line that holds an event, and the chain's link with it. */
export const eventLine = z.strictObject({
  chain: hash,
  event: z.looseObject({ position: z.string(), id: z.string() }),
});

/** The last line. */
export const manifestLine = z.strictObject({ manifest: z.unknown(), signature: z.string() });
