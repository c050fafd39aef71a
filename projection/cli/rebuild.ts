import { readLogEnd } from "../../shared/eventstore/log-end.ts";
import { rebuild } from "../engine/rebuild.ts";
import { readModels } from "../read-models/all.ts";
import type { CommandContext } from "./command.ts";
import { createProgressReporter } from "./fill-progress.ts";

/**
 * Rebuilds all read models, and prints the progress.
 *
 * @param includedStream a parked stream whose events the rebuild includes
 * @returns the exit code
 */
export async function rebuildReadModels(
  { client, pool, dataKeys, readLog, logger, terminal, signal }: CommandContext,
  includedStream?: string,
): Promise<number> {
  const startedAt = performance.now();
  const swapPosition = await rebuild(
    {
      client,
      pool,
      dataKeys,
      readLog,
      models: readModels,
      logger,
      includedStream,
      onProgress: createProgressReporter(terminal, await readLogEnd(client)),
    },
    signal,
  );
  if (swapPosition === undefined) {
    terminal.out("Interrupted. The current read models stay in use. The next rebuild continues from here.");
    return 1;
  }
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  terminal.out(`Rebuilt in ${seconds} s. The new read models are in use from position ${swapPosition}.`);
  return 0;
}
