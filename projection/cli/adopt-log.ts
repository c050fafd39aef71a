import { adoptLog } from "../adoption/adopt-log.ts";
import { logEnd } from "../checkpoints/log-end.ts";
import { readModels } from "../read-models/all.ts";
import type { CommandContext } from "./command.ts";
import { fillProgress } from "./fill-progress.ts";

/**
 * Adopts the connected event log for this database, and reports the effects on webhooks.
 *
 * @param notifyFrom milliseconds since 1970. Undefined if no webhooks are sent for events that the log already holds
 * @returns the exit code
 * @throws {CommandRefusedError}
 */
export async function adoptCurrentLog(
  { client, pool, logger, terminal, databaseUrl, now, signal }: CommandContext,
  natsUrl: string,
  notifyFrom: number | undefined,
): Promise<number> {
  const servers = { client, pool, databaseUrl, natsUrl };
  const onProgress = fillProgress(terminal, await logEnd(client));
  const adopted = await adoptLog(
    { ...servers, models: readModels, logger, onProgress, notifyFrom, now },
    signal,
  );
  if (!adopted) {
    terminal.out("Interrupted. Run the command again to continue.");
    return 1;
  }
  const { position, relay, cancelled, dropped } = adopted;
  terminal.out(
    `Adopted. The read models were rebuilt from this log and are in use from position ${position}.`,
  );
  terminal.out(
    `The relay continues after position ${relay}. Webhooks for earlier events are not sent again.`,
  );
  terminal.out(
    `The log does not hold the events of ${cancelled} pending deliveries and ${dropped} outbox entries. The deliveries were cancelled, and the entries were deleted.`,
  );
  terminal.out("The projection processes continue within seconds.");
  return 0;
}
