import { logEnd } from "../checkpoints/log-end.ts";
import { rebuild } from "../engine/rebuild.ts";
import { readModels } from "../read-models/all.ts";
import type { CommandContext } from "./command.ts";
import { fillProgress } from "./fill-progress.ts";

/**
 * Builds all read models anew, and says how it goes.
 *
 * @param takeBack a parked stream that is taken in all the same
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
    terminal.out("interrupted: the former read models serve on, and the next rebuild goes on from here");
    return 1;
  }
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  terminal.out(`rebuilt in ${seconds} s: the new read models serve from position ${swappedAt}`);
  return 0;
}
