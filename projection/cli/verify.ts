import { verify } from "../engine/verify.ts";
import { readModels } from "../read-models/all.ts";
import type { ProjectionCommand } from "./command.ts";
import { fillProgress, logEnd } from "./fill-progress.ts";

export const verifyCommand: ProjectionCommand = {
  description: "Compare the read models that serve with what the log says; every row that differs is named.",
  async run({ client, pool, logger, terminal, signal }) {
    const onProgress = fillProgress(terminal, await logEnd(client));
    const { position, rows, differences } = await verify(
      {
        client,
        pool,
        models: readModels,
        logger,
        onProgress,
        onDifference: ({ table, key, kind, columns }) => {
          const which = columns.length > 0 ? `: ${columns.join(", ")}` : "";
          terminal.out(`${kind} ${table} ${key.join(" ")}${which}`);
        },
      },
      signal,
    );
    if (signal.aborted) {
      terminal.out("interrupted");
      return 1;
    }
    terminal.out(`${rows} rows compared at position ${position}: ${differences} differ`);
    return differences === 0 ? 0 : 1;
  },
};
