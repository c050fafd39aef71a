import { z } from "zod";
import { instant, uuid } from "../../../shared/domain/events/fields.ts";
import { type RecoveryProgress, recoverDeliveries } from "../../operations/recover-deliveries.ts";
import { createOperatorContext, requireOperator, withEventLog } from "../framework/operator.ts";
import { createProgressBar } from "../framework/progress-bar.ts";
import { parseOptions, type RawOptions, type Terminal } from "../framework/run-command.ts";

const timestampSchema = instant.transform((text) => Date.parse(text));

const schema = z.object({
  endpoint: uuid,
  since: timestampSchema,
  until: timestampSchema.optional(),
  dryRun: z.boolean().default(false),
  actor: z.string().optional(),
  json: z.boolean().optional(),
});

const COMMAND_NAME = "webhooks recover";

/**
 * Runs `webhooks recover`: replays all deliveries of an endpoint that failed or were skipped in a time range, and
 * prints their number.
 *
 * @throws {InputError} that names the invalid options
 * @throws {DomainError | LogUnavailableError} if the recovery stops; replays that were already requested are kept
 */
export async function recoverWebhooks(rawOptions: RawOptions, terminal: Terminal): Promise<void> {
  const { endpoint: endpointId, since, until, dryRun: isDryRun, actor, json } = parseOptions(schema, rawOptions);
  const context = createOperatorContext(requireOperator(terminal.env, actor), Date.now());
  let progressBar: ReturnType<typeof createProgressBar> | undefined;
  const finalProgress = await withEventLog(terminal.env, (log, client) =>
    recoverDeliveries({ log, client }, { endpointId, since, until, isDryRun }, context, (progress) => {
      progressBar ??= createProgressBar(COMMAND_NAME, progress.found, terminal);
      const processedCount = progress.requested + progress.left;
      progressBar.show(processedCount, `${processedCount} of ${progress.found} deliveries`);
    }),
  ).finally(() => progressBar?.end());
  const line = json
    ? JSON.stringify({ command: COMMAND_NAME, id: endpointId, dryRun: isDryRun, ...finalProgress })
    : formatRecovery(finalProgress, isDryRun);
  await terminal.writeOutput(line);
}

function formatRecovery({ found, requested, left }: RecoveryProgress, isDryRun: boolean): string {
  const summary = isDryRun
    ? `${found} deliveries failed or were skipped; none was replayed (dry run)`
    : `${requested} of ${found} deliveries will be replayed${left > 0 ? `; ${left} can no longer be replayed` : ""}`;
  return `${COMMAND_NAME}: ${summary}`;
}
