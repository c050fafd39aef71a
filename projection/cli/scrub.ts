import { listOtherReadModels } from "../engine/prune.ts";
import { scrub } from "../engine/scrub.ts";
import { readModels } from "../read-models/all.ts";
import type { CommandContext } from "./command.ts";

/** Removes former row versions with erased data from Postgres's files. @returns the exit code */
export async function scrubTables({ pool, terminal, signal }: CommandContext): Promise<number> {
  await scrub(pool, readModels, signal, (table) => terminal.out(`Rewrote ${table}.`));
  if (signal.aborted) {
    terminal.out("Interrupted. Run the command again to continue.");
    return 1;
  }
  for (const schema of await listOtherReadModels(pool)) {
    terminal.out(`Kept ${schema}, the read models of another release, which may contain erased data. See prune.`);
  }
  return 0;
}
