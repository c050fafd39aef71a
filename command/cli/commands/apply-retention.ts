import { z } from "zod";
import { uuid } from "../../../shared/domain/events/fields.ts";
import { applyRetention, type RetentionSummary } from "../../operations/personal-data/apply-retention.ts";
import type { DuePerson } from "../../operations/personal-data/find-due-persons.ts";
import { EXIT_CODE } from "../framework/failure.ts";
import { createOperatorContext, requireOperator } from "../framework/operator.ts";
import { withPersonalDataStores } from "../framework/personal-data-stores.ts";
import { createProgressBar } from "../framework/progress-bar.ts";
import { parseOptions, type RawOptions, type Terminal } from "../framework/run-command.ts";

const schema = z.object({
  clinic: uuid.optional(),
  dryRun: z.boolean().default(false),
  actor: z.string().optional(),
  json: z.boolean().optional(),
});

const COMMAND_NAME = "retention apply";

/**
 * Runs `retention apply`: erases the data of persons whose retention period has ended, and prints a summary. A dry run
 * lists these persons instead.
 *
 * @returns the exit code: 1 if an erasure was refused, 130 if the run was interrupted
 * @throws {InputError} that names the invalid options
 * @throws {ConfigError | StartError | DomainError | LogUnavailableError | ServerUnavailableError}
 */
export async function runRetention(rawOptions: RawOptions, terminal: Terminal): Promise<number> {
  const { clinic: clinicId, dryRun: isDryRun, actor, json } = parseOptions(schema, rawOptions);
  const context = createOperatorContext(requireOperator(terminal.env, actor), Date.now());
  const signal = terminal.catchInterruption();
  let progressBar: ReturnType<typeof createProgressBar> | undefined;
  const summary = await withPersonalDataStores(terminal.env, (stores) =>
    applyRetention(stores, context, {
      ...{ clinicId, isDryRun, signal },
      onDue: async (person) => {
        if (isDryRun) await terminal.writeOutput(json ? JSON.stringify(person) : formatDuePerson(person));
      },
      onProgress: (processedCount, dueCount) => {
        progressBar ??= createProgressBar(COMMAND_NAME, dueCount, terminal);
        progressBar.show(processedCount, `${processedCount} of ${dueCount} persons`);
      },
      onRefusal: ({ type, id }, { message, code }) =>
        void terminal.writeError(`${COMMAND_NAME}: ${type} ${id} refused: ${message} (${code})`),
    }),
  ).finally(() => progressBar?.end());
  await terminal.writeOutput(
    json
      ? JSON.stringify({ command: COMMAND_NAME, dryRun: isDryRun, ...summary })
      : `${COMMAND_NAME}: ${formatSummary(summary, isDryRun)}`,
  );
  if (summary.isInterrupted) return EXIT_CODE.interrupted;
  return summary.refused > 0 ? EXIT_CODE.failed : EXIT_CODE.done;
}

function formatDuePerson({ type, id, clinicId, lastVisitAt, categories }: DuePerson): string {
  return `${type} ${id} of clinic ${clinicId}, last visit ${lastVisitAt.slice(0, 10)}: ${categories.join(", ")}`;
}

function formatSummary(summary: RetentionSummary, isDryRun: boolean): string {
  const { erased, refused, destroyedKeys, keysDestroyedAgain, isInterrupted } = summary;
  const counts = [
    formatCount(erased.customer, "customer"),
    formatCount(erased.appointment, "appointment"),
    formatCount(erased.queueTicket, "queue ticket"),
  ].join(", ");
  if (isDryRun) return `data of ${counts} would be erased (dry run)`;
  return [
    `data of ${counts} erased`,
    `${formatCount(destroyedKeys, "data key")} destroyed`,
    ...(keysDestroyedAgain > 0
      ? [`${formatCount(keysDestroyedAgain, "data key")} of earlier erasures destroyed again`]
      : []),
    ...(refused > 0 ? [`${formatCount(refused, "erasure")} refused`] : []),
    ...(isInterrupted ? ["interrupted; run the command again to continue"] : []),
  ].join("; ");
}

function formatCount(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
