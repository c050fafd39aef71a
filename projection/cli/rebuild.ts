import { rebuild } from "../engine/rebuild.ts";
import { readModels } from "../read-models/all.ts";
import type { ProjectionCommand } from "./command.ts";
import { fillProgress, logEnd } from "./fill-progress.ts";

export const rebuildCommand: ProjectionCommand = {
  description:
    "Build all read models anew from the log, beside those that serve, and put them in their place when they have caught up.",
  async run({ client, pool, logger, terminal, signal }) {
    const started = performance.now();
    let swappedAt: bigint | undefined;
    const onProgress = fillProgress(terminal, await logEnd(client));
    const onSwapped = (position: bigint) => {
      swappedAt = position;
    };
    await rebuild({ client, pool, models: readModels, logger, onProgress, onSwapped }, signal);
    if (swappedAt === undefined) {
      terminal.out("interrupted: the former read models serve on, and the next rebuild goes on from here");
      return 1;
    }
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    terminal.out(`rebuilt in ${seconds} s: the new read models serve from position ${swappedAt}`);
    return 0;
  },
};
