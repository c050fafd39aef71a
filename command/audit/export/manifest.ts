import { z } from "zod";

export const FORMAT = "clinic-service-audit-export/1";

const hash = z.string().regex(/^[0-9a-f]{64}$/, "must be a SHA-256 in hex");
const instant = z.iso.datetime({ precision: 3 });
const place = z.strictObject({ position: z.string().regex(/^\d+$/, "must be a position"), id: z.string() });

/** Signed description of an export, in the last line of the file. */
export const manifest = z.strictObject({
  format: z.literal(FORMAT),
  clinicId: z.guid(),
  /** Range of storage times: from inclusive (null: start of the log), to exclusive. */
  stored: z.strictObject({ from: instant.nullable(), to: instant }),
  count: z.int().min(0),
  first: place.nullable(),
  last: place.nullable(),
  /** Last link of the hash chain. */
  chain: hash,
  /** Selected links, to locate the first changed line if somebody recomputed the chain. */
  marks: z.strictObject({
    every: z.int().min(1),
    links: z.array(z.string().regex(/^[0-9a-f]{16}$/, "must be 16 hex digits")),
  }),
  /** Time, creator and log end of the export. Only these members differ if the same range is exported again. */
  made: z.strictObject({
    at: instant,
    by: z.strictObject({ type: z.string(), id: z.string() }),
    accessId: z.string(),
    logEnd: z.string().regex(/^\d+$/, "must be a position"),
  }),
});
export type Manifest = z.infer<typeof manifest>;

/** A line with an event and its link of the chain. */
export const eventLine = z.strictObject({
  chain: hash,
  event: z.looseObject({ position: z.string(), id: z.string() }),
});

/** The last line of an export. */
export const manifestLine = z.strictObject({ manifest: z.unknown(), signature: z.string() });
