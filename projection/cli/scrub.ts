import { EXIT_CODE } from "../../shared/command-line/failure.ts";
import { listOtherReadModels } from "../engine/prune.ts";
import { scrub } from "../engine/scrub.ts";
import { readModels } from "../read-models/all.ts";
import type { CommandContext } from "./command-context.ts";

/** Removes former row versions with erased data from Postgres's files. @returns the exit code */
export async function scrubTables({ pool, terminal, signal }: CommandContext): Promise<number> {
  await scrub(pool, readModels, signal, (table) => void terminal.writeOutput(`Rewrote ${table}.`));
  if (signal.aborted) {
    await terminal.writeOutput("Interrupted. Run the command again to continue.");
    return EXIT_CODE.interrupted;
  }
  for (const schema of await listOtherReadModels(pool)) {
    await terminal.writeOutput(
      `Kept ${schema}, the read models of another release, which may contain erased data. See prune.`,
    );
  }
  return 0;
}
