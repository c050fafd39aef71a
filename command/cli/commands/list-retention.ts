import { z } from "zod";
import { clinicAggregate } from "../../../shared/domain/clinic/clinic.ts";
import { uuid } from "../../../shared/domain/events/fields.ts";
import { requireExisting } from "../../../shared/domain/preconditions.ts";
import { loadAggregate } from "../../handling/handle.ts";
import { withEventLog } from "../framework/operator.ts";
import { parseOptions, type RawOptions, type Terminal } from "../framework/run-command.ts";

const schema = z.object({ clinic: uuid, json: z.boolean().optional() });

/**
 * Runs `retention list`: prints a clinic's retention rules.
 *
 * @throws {InputError} that names the invalid options
 * @throws {DomainError | LogUnavailableError}
 */
export async function listRetention(rawOptions: RawOptions, terminal: Terminal): Promise<void> {
  const { clinic: clinicId, json } = parseOptions(schema, rawOptions);
  const { state } = await withEventLog(terminal.env, (log) => loadAggregate(log, clinicAggregate, clinicId));
  const { retentionMonths } = requireExisting(state, "clinic");
  if (json)
    return terminal.writeOutput(JSON.stringify({ command: "retention list", clinicId, months: retentionMonths }));
  const rules = Object.entries(retentionMonths).map(([category, months]) => `${category}: ${months} months`);
  await terminal.writeOutput(rules.length > 0 ? rules.join("\n") : "The clinic has no retention rules.");
}
