import { z } from "zod";
import { personalDataCategory } from "../../../shared/domain/events/erasure.ts";
import { label, uuid } from "../../../shared/domain/events/fields.ts";
import type { PersonalDataCategory, PersonType } from "../../../shared/domain/personal-data/person.ts";
import { type ErasablePerson, type ErasureResult, erasePerson } from "../../operations/personal-data/erase-person.ts";
import { categoriesByType, hasClinic } from "../../operations/personal-data/record-erasure.ts";
import { createOperatorContext, requireOperator } from "../framework/operator.ts";
import { withPersonalDataStores } from "../framework/personal-data-stores.ts";
import { parseOptions, type RawOptions, type Terminal } from "../framework/run-command.ts";

/** A command `<noun> erase`. */
export interface EraseCommand {
  noun: string;
  type: PersonType;
  summary: string;
}

export const eraseCommands: readonly EraseCommand[] = [
  {
    noun: "customer",
    type: "customer",
    summary: "Erases a customer's data, also the data of the customer's animals, appointments and queue tickets.",
  },
  { noun: "staff", type: "staff", summary: "Erases the name and email address of a staff member." },
  {
    noun: "portal-user",
    type: "portalUser",
    summary: "Erases the data of a portal user in all clinics, and the user's selected clinic.",
  },
  {
    noun: "auditor",
    type: "auditor",
    summary: "Erases the name of a revoked auditor, and the reason of the revocation.",
  },
  {
    noun: "appointment",
    type: "appointment",
    summary: "Erases the reason and notes of an appointment without a customer.",
  },
  { noun: "ticket", type: "queueTicket", summary: "Erases the notes of a queue ticket without a customer." },
];

/** Places where erased data remains for a time. */
const REMAINING_DATA = `Copies of the data remain in former row versions in Postgres's files until \`clinic projection scrub\`, in backups of
Postgres that contain the data keys, and with partners and people who received it. See docs/privacy.md.`;

function createSchema(type: PersonType) {
  const permittedCategories = categoriesByType[type];
  const categories = z
    .string()
    .default(permittedCategories.join(","))
    .transform((text) => [...new Set(text.split(",").map((category) => category.trim()))])
    .pipe(z.array(personalDataCategory.extract([...permittedCategories])));
  return z.object({
    id: uuid,
    ...(hasClinic(type) && { clinic: uuid }),
    categories,
    reason: label,
    actor: z.string().optional(),
    json: z.boolean().optional(),
  });
}

/**
 * Runs `<noun> erase`: erases a person's data, and prints what was erased and where copies remain.
 *
 * @throws {InputError} that names the invalid options
 * @throws {ConfigError | StartError | DomainError | LogUnavailableError | ServerUnavailableError}
 */
export async function runErase(command: EraseCommand, rawOptions: RawOptions, terminal: Terminal): Promise<void> {
  const { type } = command;
  const options = parseOptions(createSchema(type), rawOptions);
  const { id, categories, reason } = options;
  const context = createOperatorContext(requireOperator(terminal.env, options.actor), Date.now());
  const person: ErasablePerson = hasClinic(type)
    ? { type, id, clinicId: (options as { clinic: string }).clinic }
    : { type, id };
  const erasure = { categories, cause: "request" as const, reason };
  const result = await withPersonalDataStores(terminal.env, (stores) => erasePerson(stores, person, erasure, context));
  await terminal.writeOutput(
    options.json ? formatJson(command, id, categories, result) : formatText(command, id, categories, result),
  );
}

function formatJson({ noun }: EraseCommand, id: string, categories: PersonalDataCategory[], result: ErasureResult) {
  const { isRecorded: changed, position, destroyedKeyCount: destroyedKeys } = result;
  return JSON.stringify({
    ...{ command: `${noun} erase`, id, changed, position: position === undefined ? null : String(position) },
    ...{ categories, destroyedKeys },
  });
}

function formatText({ noun }: EraseCommand, id: string, categories: PersonalDataCategory[], result: ErasureResult) {
  const status = result.isRecorded ? "done" : "was erased before";
  const keysText = `${result.destroyedKeyCount} ${result.destroyedKeyCount === 1 ? "data key" : "data keys"} destroyed`;
  return `${noun} erase: ${status}, id ${id}, ${categories.join(", ")}, ${keysText}
The read models show neutral values. Within 5 seconds, no process can decrypt the data.
${REMAINING_DATA}`;
}
