import { EXIT_CODE } from "../../shared/command-line/failure.ts";
import { showProgress } from "../../shared/command-line/terminal.ts";
import { readLogEnd } from "../../shared/eventstore/log-end.ts";
import { adoptLog } from "../adoption/adopt-log.ts";
import { readModels } from "../read-models/all.ts";
import type { NatsSettings } from "../relay/nats-settings.ts";
import type { CommandContext } from "./command-context.ts";
import { createProgressReporter } from "./fill-progress.ts";

/**
 * Adopts the connected event log for this database, and prints the effects on webhooks.
 *
 * @param notifyFrom milliseconds since 1970. If set, the relay sends all events that the log stored at or after this
 *   time. See {@link adoptLog}
 * @returns the exit code
 * @throws {CommandRefusedError}
 */
export async function adoptCurrentLog(
  context: CommandContext,
  nats: NatsSettings,
  notifyFrom: number | undefined,
): Promise<number> {
  const { client, terminal, signal } = context;
  const onProgress = createProgressReporter((text) => showProgress(terminal, text), await readLogEnd(client));
  const adoption = await adoptLog({ ...context, nats, models: readModels, onProgress, notifyFrom }, signal);
  if (!adoption) {
    await terminal.writeOutput("Interrupted. Run the command again to continue.");
    return EXIT_CODE.interrupted;
  }
  const { position, relayPosition, cancelledDeliveryCount, deletedOutboxEntryCount } = adoption;
  await terminal.writeOutput(
    `Adopted. The read models were rebuilt from this log and are in use from position ${position}.`,
  );
  await terminal.writeOutput(
    `The relay continues after position ${relayPosition}. Webhooks for earlier events are not sent again.`,
  );
  await terminal.writeOutput(
    `The log does not hold the events of ${cancelledDeliveryCount} pending deliveries and ${deletedOutboxEntryCount} outbox entries. The deliveries were cancelled, and the entries were deleted.`,
  );
  await terminal.writeOutput("The projection processes continue within seconds.");
  return 0;
}
