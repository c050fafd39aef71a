import { readFile } from "node:fs/promises";
import { z } from "zod";
import { localPaths, localRoot } from "../setup/project.ts";

const stackFile = z.object({
  apis: z.object({ portal: z.url(), sandbox: z.url() }),
  demo: z.object({
    portalUsers: z.array(
      z.object({ name: z.string(), role: z.string(), clinicId: z.string(), cookie: z.string() }),
    ),
    applications: z.array(
      z.object({
        name: z.string(),
        environment: z.string(),
        clientId: z.string(),
        clientSecret: z.string(),
        clinicId: z.string(),
        branchId: z.string(),
        animalId: z.string(),
      }),
    ),
  }),
});

/** What the demo needs to know of the stack that runs. */
export type StackFile = z.infer<typeof stackFile>;

/**
 * Reads what `npm start` wrote.
 *
 * @throws {Error} one readable line, where no stack runs
 */
export async function readStackFile(): Promise<StackFile> {
  const path = localPaths(localRoot(process.env)).stack;
  const text = await readFile(path, "utf8").catch(() => {
    throw new Error(`no stack runs here (${path} is missing): run npm start in another terminal first`);
  });
  const stack = stackFile.safeParse(JSON.parse(text));
  if (!stack.success)
    throw new Error("the stack that runs here was started by another version: start it again");
  return stack.data;
}
