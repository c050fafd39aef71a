import { z } from "zod";

export const EXPORT_FORMAT = "clinic-service-audit-export/1";

const sha256Hex = z.string().regex(/^[0-9a-f]{64}$/, "must be a SHA-256 hash in hex");
const instant = z.iso.datetime({ precision: 3 });
const eventReference = z.strictObject({
  position: z.string().regex(/^\d+$/, "must be a log position"),
  id: z.string(),
});

export const manifestSchema = z.strictObject({
  format: z.literal(EXPORT_FORMAT),
  clinicId: z.guid().lowercase(),
  /** Range of storage times. `from` is inclusive, or null for the start of the log. `to` is exclusive. */
  stored: z.strictObject({ from: instant.nullable(), to: instant }),
  count: z.int().min(0),
  first: eventReference.nullable(),
  last: eventReference.nullable(),
  chain: sha256Hex,
  /**
   * Shortened links of the hash chain. If an attacker recomputed the chain, the shortened links locate the first
   * change.
   */
  marks: z.strictObject({
    every: z
      .int()
      .min(1)
      .refine((every) => Number.isInteger(Math.log2(every)), "must be a power of two"),
    links: z.array(z.string().regex(/^[0-9a-f]{16}$/, "must be 16 hex digits")),
  }),
  /**
   * Time and author of the export, and the log position at which the log ended. Two manifests of the same range differ
   * only in these members.
   */
  made: z.strictObject({
    at: instant,
    by: z.strictObject({ type: z.string(), id: z.string() }),
    accessId: z.string(),
    logEnd: z.string().regex(/^\d+$/, "must be a log position"),
  }),
});
export type Manifest = z.infer<typeof manifestSchema>;

export const eventLineSchema = z.strictObject({
  chain: sha256Hex,
  event: z.looseObject({ position: z.string(), id: z.string() }),
});

/** The last line of an export, with the manifest and its signature (JWS). */
export const manifestLineSchema = z.strictObject({ manifest: z.unknown(), signature: z.string() });
