import { pruneReadModels } from "../engine/prune.ts";
import type { CommandContext } from "./command.ts";

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
    terminal.out("Interrupted. Run the command again to continue.");
    return 1;
  }
  for (const schema of schemas) terminal.out(`Dropped ${schema}.`);
  if (schemas.length === 0) terminal.out("There are no read models of other releases.");
  return 0;
}
