import { z } from "zod";
import { instant, uuid } from "../../../shared/domain/events/fields.ts";
import { type Recovery, recoverDeliveries } from "../../operations/recover-deliveries.ts";
import { problemsOf } from "../framework/command.ts";
import { InputError, problemsLine } from "../framework/failure.ts";
import { operatorContext, withEventLog } from "../framework/operator.ts";
import { createProgressBar } from "../framework/progress-bar.ts";
import { optionName, type Terminal } from "../framework/run-command.ts";

/** Options of `webhooks recover` on the command line. */
export interface RecoverOptions {
  endpoint?: string;
  since?: string;
  until?: string;
  dryRun?: boolean;
  actor?: string;
  json?: boolean;
}

const time = instant.transform((text) => Date.parse(text));

const schema = z.object({
  endpoint: uuid,
  since: time,
  until: time.optional(),
  dryRun: z.boolean().default(false),
});

const NAME = "webhooks recover";

/**
 * Replays all deliveries of an endpoint that failed or were skipped in a time range, and prints how many.
 *
 * @throws {InputError} that names the invalid options
 * @throws {DomainError | LogUnavailableError} if the recovery stops; replays requested so far are kept
 */
export async function recoverWebhooks(words: RecoverOptions, terminal: Terminal): Promise<void> {
  const { actor, json, ...given } = words;
  const checked = schema.safeParse(given);
  if (!checked.success) throw new InputError(problemsLine(problemsOf(checked.error, given), optionName));
  const { endpoint: endpointId, since, until, dryRun } = checked.data;
  const context = operatorContext(actor, Date.now());
  let bar: ReturnType<typeof createProgressBar> | undefined;
  const recovery = await withEventLog(terminal.env, (log, client) =>
    recoverDeliveries({ log, client }, { endpointId, since, until, dryRun }, context, (progress) => {
      bar ??= createProgressBar(NAME, progress.found, terminal);
      const done = progress.requested + progress.left;
      bar.show(done, `${done} of ${progress.found} deliveries`);
    }),
  ).finally(() => bar?.end());
  await terminal.out(
    json ? JSON.stringify({ command: NAME, id: endpointId, dryRun, ...recovery }) : text(recovery, dryRun),
  );
}

function text({ found, requested, left }: Recovery, dryRun: boolean): string {
  const said = dryRun
    ? `${found} deliveries failed or were skipped; none was replayed (dry run)`
    : `${requested} of ${found} deliveries will be replayed${left > 0 ? `; ${left} can no longer be replayed` : ""}`;
  return `${NAME}: ${said}`;
}
