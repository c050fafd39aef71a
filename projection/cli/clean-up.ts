import { EXIT_CODE } from "../../shared/command-line/failure.ts";
import { listOtherReadModels, pruneReadModels } from "../engine/prune.ts";
import { scrub } from "../engine/scrub.ts";
import { readModels } from "../read-models/all.ts";
import type { CommandContext } from "./command-context.ts";

/**
 * Drops the read models of other releases, and prints their schemas.
 *
 * @param unusedMs see {@link pruneReadModels}
 * @returns the exit code
 */
export async function pruneOtherReadModels(
  { pool, terminal, signal }: CommandContext,
  unusedMs?: number,
): Promise<number> {
  const schemas = await pruneReadModels(pool, signal, unusedMs);
  if (signal.aborted) {
    await terminal.writeOutput("Interrupted. Run the command again to continue.");
    return EXIT_CODE.interrupted;
  }
  for (const schema of schemas) await terminal.writeOutput(`Dropped ${schema}.`);
  if (schemas.length === 0) await terminal.writeOutput("There are no read models of other releases.");
  return 0;
}

/** Removes obsolete row versions with erased data from Postgres's files. @returns the exit code */
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
