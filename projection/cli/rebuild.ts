import { logEnd } from "../checkpoints/log-end.ts";
import { rebuild } from "../engine/rebuild.ts";
import { readModels } from "../read-models/all.ts";
import type { CommandContext } from "./command.ts";
import { fillProgress } from "./fill-progress.ts";

/**
 * Rebuilds all read models, and reports the progress.
 *
 * @param includedStream a parked stream whose events are included
 * @returns the exit code
 */
export async function rebuildReadModels(
  { client, pool, logger, terminal, signal }: CommandContext,
  includedStream?: string,
): Promise<number> {
  const started = performance.now();
  let swappedAt: bigint | undefined;
  await rebuild(
    {
      ...{ client, pool, models: readModels, logger },
      ...(includedStream !== undefined && { includedStream }),
      onProgress: fillProgress(terminal, await logEnd(client)),
      onSwapped: (position) => {
        swappedAt = position;
      },
    },
    signal,
  );
  if (swappedAt === undefined) {
    terminal.out("Interrupted. The current read models stay in use. The next rebuild continues from here.");
    return 1;
  }
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  terminal.out(`Rebuilt in ${seconds} s. The new read models are in use from position ${swappedAt}.`);
  return 0;
}
