import { EXIT_CODE } from "../../shared/command-line/failure.ts";
import { showProgress } from "../../shared/command-line/terminal.ts";
import { readLogEnd } from "../../shared/eventstore/log-end.ts";
import { rebuild } from "../engine/rebuild.ts";
import { readModels } from "../read-models/all.ts";
import type { CommandContext } from "./command-context.ts";
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
      onProgress: createProgressReporter((text) => showProgress(terminal, text), await readLogEnd(client)),
    },
    signal,
  );
  if (swapPosition === undefined) {
    await terminal.writeOutput(
      "Interrupted. The current read models stay in use. The next rebuild continues from here.",
    );
    return EXIT_CODE.interrupted;
  }
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  await terminal.writeOutput(`Rebuilt in ${seconds} s. The new read models are in use from position ${swapPosition}.`);
  return 0;
}
