import { adoptLog } from "../adoption/adopt-log.ts";
import { logEnd } from "../checkpoints/log-end.ts";
import { readModels } from "../read-models/all.ts";
import type { CommandContext } from "./command.ts";
import { fillProgress } from "./fill-progress.ts";

/**
 * Makes the log that is there the one behind the database, and says what that means for partners.
 *
 * @param tellSince milliseconds since 1970; undefined if no event that is already in the log is to be told
 * @returns the exit code
 * @throws {ActRefused}
 */
export async function adoptCurrentLog(
  { client, pool, logger, terminal, databaseUrl, now, signal }: CommandContext,
  natsUrl: string,
  tellSince: number | undefined,
): Promise<number> {
  const servers = { client, pool, databaseUrl, natsUrl };
  const onProgress = fillProgress(terminal, await logEnd(client));
  const adopted = await adoptLog(
    { ...servers, models: readModels, logger, onProgress, tellSince, now },
    signal,
  );
  if (!adopted) {
    terminal.out("interrupted: run the command again to continue");
    return 1;
  }
  const { position, relay, cancelled, dropped } = adopted;
  terminal.out(`adopted: the read models were rebuilt from this log and serve from position ${position}`);
  terminal.out(`The relay continues after position ${relay}. Earlier events are not sent to partners again.`);
  terminal.out(
    `${cancelled} pending deliveries of events that this log does not hold were cancelled, and ${dropped} facts about such deliveries were dropped.`,
  );
  terminal.out("The projection processes continue by themselves within seconds.");
  return 0;
}
