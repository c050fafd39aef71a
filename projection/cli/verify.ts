import { logEnd } from "../checkpoints/log-end.ts";
import { verify } from "../engine/verify.ts";
import { readModels } from "../read-models/all.ts";
import type { CommandContext } from "./command.ts";
import { fillProgress } from "./fill-progress.ts";

/** Compares the read models with the log. @returns the exit code: 1 if rows differ */
export async function verifyReadModels(context: CommandContext): Promise<number> {
  const { client, pool, logger, terminal, signal } = context;
  const verified = await verify(
    {
      ...{ client, pool, models: readModels, logger },
      onProgress: fillProgress(terminal, await logEnd(client)),
      onDifference: ({ table, key, kind, columns }) => {
        const which = columns.length > 0 ? `: ${columns.join(", ")}` : "";
        terminal.out(`${kind} ${table} ${key.join(" ")}${which}`);
      },
    },
    signal,
  );
  if (signal.aborted) {
    terminal.out("Interrupted.");
    return 1;
  }
  const { position, rows, differences, skipped } = verified;
  const without = skipped === 0 ? "" : `, without ${skipped} skipped streams`;
  terminal.out(`${rows} rows compared at position ${position}${without}: ${differences} differ`);
  return differences === 0 ? 0 : 1;
}
