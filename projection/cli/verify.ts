import { EXIT_CODE } from "../../shared/command-line/failure.ts";
import { showProgress } from "../../shared/command-line/terminal.ts";
import { readLogEnd } from "../../shared/eventstore/log-end.ts";
import { verify } from "../engine/verify.ts";
import { readModels } from "../read-models/all.ts";
import type { CommandContext } from "./command-context.ts";
import { createProgressReporter } from "./fill-progress.ts";

/** Compares the read models with the log. @returns the exit code: 1 if rows differ */
export async function verifyReadModels(context: CommandContext): Promise<number> {
  const { client, pool, dataKeys, readLog, logger, terminal, signal } = context;
  const { position, rows, differenceCount, skippedStreamCount } = await verify(
    {
      client,
      pool,
      dataKeys,
      readLog,
      models: readModels,
      logger,
      onProgress: createProgressReporter((text) => showProgress(terminal, text), await readLogEnd(client)),
      onDifference: ({ table, key, kind, columns }) => {
        const columnsText = columns.length > 0 ? `: ${columns.join(", ")}` : "";
        void terminal.writeOutput(`${kind} ${table} ${key.join(" ")}${columnsText}`);
      },
    },
    signal,
  );
  if (signal.aborted) {
    await terminal.writeOutput("Interrupted.");
    return EXIT_CODE.interrupted;
  }
  const skippedText = skippedStreamCount === 0 ? "" : `, not counting ${skippedStreamCount} skipped streams`;
  await terminal.writeOutput(`${rows} rows compared at position ${position}${skippedText}: ${differenceCount} differ`);
  return differenceCount === 0 ? EXIT_CODE.done : EXIT_CODE.failed;
}
