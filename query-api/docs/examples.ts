import { readFileSync } from "node:fs";
import path from "node:path";
import { z } from "zod";

const operationExample = z.object({
  /** Body of the request; absent if the request has no body. */
  request: z.unknown().optional(),
  status: z.int(),
  response: z.unknown(),
});

const recordingSchema = z.object({
  operations: z.record(z.string(), operationExample),
  events: z.record(z.string(), z.unknown()),
});

/** Examples of an API: operations by operation id, and webhook bodies by event type. */
export type Recording = z.infer<typeof recordingSchema>;

/**
 * Reads the examples of an API, which tests record from real responses. An operation or event type that is not
 * recorded yet has no example.
 */
export function readExamples(api: "partner" | "portal"): Recording {
  const file = path.join(import.meta.dirname, "assets", `${api}-examples.json`);
  return recordingSchema.parse(JSON.parse(readFileSync(file, "utf8")));
}

/** Replaces the brand in the header names of an example. Examples are recorded with the brand `SERVICE`. */
export function replaceBrand(example: unknown, brand: string): unknown {
  return example && JSON.parse(JSON.stringify(example).replaceAll('"X-SERVICE-', `"X-${brand}-`));
}
