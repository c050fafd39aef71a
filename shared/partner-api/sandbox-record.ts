import { z } from "zod";

const uuid = z.guid();

/** Schema of a sandbox in the partner API. All lists in the record are sorted by name, then by id. */
export const sandboxRecord = z.strictObject({
  clinicId: uuid.describe("Id of the sandbox's clinic, for the clinic header of other operations."),
  generation: z.int().min(1).describe("Number of times that the sandbox has been filled with the fixture."),
  resetAt: z.iso.datetime({ precision: 3 }),
  day: z.iso.date().describe("Day (UTC) of the fixture data."),
  branches: z.array(z.strictObject({ id: uuid, name: z.string() })),
  animals: z.array(z.strictObject({ id: uuid, name: z.string(), species: z.string() })),
  appointments: z.int().min(0).describe("Current number of appointments."),
});
export type SandboxRecord = z.infer<typeof sandboxRecord>;
