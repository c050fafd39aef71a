import { defineCommand } from "../../../shared/command-line/command-line.ts";
import { EXIT_CODE } from "../../../shared/command-line/failure.ts";
import { suggestNext } from "../../../shared/command-line/format-command-line.ts";
import { formatCount } from "../../../shared/command-line/format-count.ts";
import { actorOption, requireOperator } from "../../../shared/command-line/operator.ts";
import { jsonOption, option } from "../../../shared/command-line/option.ts";
import { clinicAggregate } from "../../../shared/domain/clinic/clinic.ts";
import { DomainError } from "../../../shared/domain/domain-error.ts";
import { uuid } from "../../../shared/domain/events/fields.ts";
import { requireExisting } from "../../../shared/domain/preconditions.ts";
import { loadAggregate } from "../../handling/handle.ts";
import { createOperatorContext, withEventLog } from "../../handling/operator.ts";
import { applyRetention, type RetentionSummary } from "../../operations/personal-data/apply-retention.ts";
import type { DuePerson } from "../../operations/personal-data/find-due-persons.ts";
import { clinic } from "../options.ts";
import { withReadModels } from "../read-models.ts";
import { ERASURE_NOTE } from "./erase.ts";

const EXAMPLE_CLINIC_ARGUMENT = "--clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";

export const listRetentionCommand = defineCommand({
  name: "retention list",
  summary: "Shows a clinic's retention rules.",
  options: { clinic, json: jsonOption },
  example: EXAMPLE_CLINIC_ARGUMENT,
  async run({ clinic: clinicId, json }, terminal) {
    const { state } = await withEventLog(terminal.env, (log) => loadAggregate(log, clinicAggregate, clinicId));
    const { retentionMonths: months } = requireExisting(state, "clinic");
    if (json) return terminal.writeOutput(JSON.stringify({ command: "retention list", clinicId, months }));
    const rules = Object.entries(months).map(([category, count]) => `${category}: ${formatCount(count, "month")}`);
    await terminal.writeOutput(rules.length > 0 ? rules.join("\n") : "The clinic has no retention rules.");
    await suggestNext(terminal, json, `retention apply --clinic ${clinicId} --dry-run`);
  },
});

const APPLY = "retention apply";

/** Erases data whose retention period has ended. Exits with 1 if an erasure was refused or a clinic was skipped. */
export const applyRetentionCommand = defineCommand({
  name: APPLY,
  summary:
    "Erases personal data whose retention period has ended. Also destroys again the data keys that a restore has brought back. Run it daily.",
  options: {
    clinic: option.text(uuid.optional(), "apply only the rules of this clinic; default: all clinics", "uuid"),
    dryRun: option.flag("list the persons without erasing their data"),
    actor: actorOption,
    json: jsonOption,
  },
  example: "--dry-run",
  details: ERASURE_NOTE,
  async run({ clinic: clinicId, dryRun: isDryRun, actor, json }, terminal) {
    const context = createOperatorContext(requireOperator(terminal.env, actor), Date.now());
    const signal = terminal.catchInterruption();
    const summary = await withReadModels(terminal.env, (stores) =>
      applyRetention(stores, context, {
        clinicId,
        isDryRun,
        signal,
        onDue: (person) => terminal.writeOutput(json ? JSON.stringify(person) : formatDuePerson(person)),
        onProgress: (processedCount) => terminal.redraw?.(`${formatCount(processedCount, "person")} processed`),
        onRefusal: ({ type, id }, error) =>
          void terminal.writeError(`${APPLY}: ${type} ${id} refused: ${error.message} (${getErrorCode(error)})`),
        onSkippedClinic: (id, error) =>
          void terminal.writeError(`${APPLY}: clinic ${id} skipped: ${error.message} (${getErrorCode(error)})`),
      }),
    );
    await terminal.writeOutput(
      json
        ? JSON.stringify({ command: APPLY, dryRun: isDryRun, ...summary })
        : `${APPLY}: ${formatSummary(summary, isDryRun)}`,
    );
    if (summary.isInterrupted) return EXIT_CODE.interrupted;
    if (isDryRun) await suggestNext(terminal, json, `${APPLY}${clinicId === undefined ? "" : ` --clinic ${clinicId}`}`);
    return summary.refused + summary.skippedClinics > 0 ? EXIT_CODE.failed : EXIT_CODE.done;
  },
});

const getErrorCode = (error: Error) => (error instanceof DomainError ? error.code : error.name);

function formatDuePerson({ type, id, clinicId, lastVisitAt, categories }: DuePerson): string {
  return `${type} ${id} of clinic ${clinicId}, last visit ${lastVisitAt.slice(0, 10)}: ${categories.join(", ")}`;
}

function formatSummary(summary: RetentionSummary, isDryRun: boolean): string {
  const { erased, refused, skippedClinics, destroyedKeys, keysDestroyedAgain, isInterrupted } = summary;
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
    ...(skippedClinics > 0 ? [`${formatCount(skippedClinics, "clinic")} skipped`] : []),
    ...(isInterrupted ? ["interrupted; run the command again to continue"] : []),
  ].join("; ");
}
