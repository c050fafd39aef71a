import { z } from "zod";

const uuid = z.guid();

/** A sandbox as its partner sees it: what is needed to start. Lists are in the order of names, then ids. */
export const sandboxRecord = z.strictObject({
  /** For the clinic header. */
  clinicId: uuid,
  /** How often it was filled, from 1: data of former generations is gone. */
  generation: z.int().min(1),
  resetAt: z.iso.datetime({ precision: 3 }),
  /** The day (UTC) that the fixture's times are about. */
  day: z.iso.date(),
  branches: z.array(z.strictObject({ id: uuid, name: z.string() })),
  animals: z.array(z.strictObject({ id: uuid, name: z.string(), species: z.string() })),
  /** How many there are now. */
  appointments: z.int().min(0),
});
export type SandboxRecord = z.infer<typeof sandboxRecord>;
