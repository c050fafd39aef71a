import { defineCommand } from "../../../shared/command-line/command-line.ts";
import { actorOption, requireOperator } from "../../../shared/command-line/operator.ts";
import { jsonOption, option } from "../../../shared/command-line/option.ts";
import { createProgressBar } from "../../../shared/command-line/progress-bar.ts";
import { instant } from "../../../shared/domain/events/fields.ts";
import { createOperatorContext, withEventLog } from "../../handling/operator.ts";
import { type RecoveryProgress, recoverDeliveries } from "../../operations/recover-deliveries.ts";

const COMMAND_NAME = "webhooks recover";

const time = instant.transform((text) => Date.parse(text));

/** If the recovery stops with an error, the replays that were already requested are kept. */
export const recoverWebhooksCommand = defineCommand({
  name: COMMAND_NAME,
  summary:
    "Replays all deliveries of an endpoint that failed or were skipped since the given time. A second run replays only those still failed or skipped.",
  options: {
    endpoint: option.id("the webhook endpoint"),
    since: option.text(time, "replay deliveries that failed or were skipped at or after this time, RFC 3339", "time"),
    until: option.text(
      time.optional(),
      "replay only deliveries that failed or were skipped before this time, RFC 3339",
      "time",
    ),
    dryRun: option.flag("count the deliveries without replaying them"),
    actor: actorOption,
    json: jsonOption,
  },
  example: "--endpoint 7d3e5f2a-4b1c-4d6e-8f90-a1b2c3d4e00b --since 2026-05-04T00:00:00Z --dry-run",
  async run({ endpoint: endpointId, since, until, dryRun: isDryRun, actor, json }, terminal) {
    const context = createOperatorContext(requireOperator(terminal.env, actor), Date.now());
    let progressBar: ReturnType<typeof createProgressBar> | undefined;
    const finalProgress = await withEventLog(terminal.env, (log, client) =>
      recoverDeliveries({ log, client }, { endpointId, since, until, isDryRun }, context, (progress) => {
        progressBar ??= createProgressBar(COMMAND_NAME, progress.found, terminal);
        const processedCount = progress.requested + progress.left;
        progressBar.show(processedCount, `${processedCount} of ${progress.found} deliveries`);
      }),
    ).finally(() => progressBar?.end());
    await terminal.writeOutput(
      json
        ? JSON.stringify({ command: COMMAND_NAME, id: endpointId, dryRun: isDryRun, ...finalProgress })
        : formatRecovery(finalProgress, isDryRun),
    );
  },
});

function formatRecovery({ found, requested, left }: RecoveryProgress, isDryRun: boolean): string {
  const summary = isDryRun
    ? `${found} deliveries failed or were skipped; none was replayed (dry run)`
    : `${requested} of ${found} deliveries will be replayed${left > 0 ? `; ${left} can no longer be replayed` : ""}`;
  return `${COMMAND_NAME}: ${summary}`;
}
