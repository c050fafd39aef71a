import { z } from "zod";
import { defineCommand } from "../../../shared/command-line/command-line.ts";
import { actorOption, requireOperator } from "../../../shared/command-line/operator.ts";
import { jsonOption, option } from "../../../shared/command-line/option.ts";
import { personalDataCategorySchema } from "../../../shared/domain/events/erasure.ts";
import { label } from "../../../shared/domain/events/fields.ts";
import type { PersonalDataCategory, PersonType } from "../../../shared/domain/personal-data/person.ts";
import { createOperatorContext } from "../../handling/operator.ts";
import { type ErasureResult, erasePerson } from "../../operations/personal-data/erase-person.ts";
import { categoriesByType, hasClinic } from "../../operations/personal-data/record-erasure.ts";
import { clinic } from "../options.ts";
import { withReadModels } from "../read-models.ts";

export const ERASURE_NOTE = "An erasure cannot be undone. DATABASE_URL must be the one of the projection service.";

const REMAINING_DATA = `Copies of the data remain in former row versions in Postgres's files until \`clinic projection scrub\`, in backups of
Postgres that contain the data keys, and with partners and people who received it. See docs/privacy.md.`;

/** Defines the command `<noun> erase`, which prints what was erased and where copies remain. */
function defineEraseCommand(noun: string, type: PersonType, summary: string, idOption = noun) {
  const name = `${noun} erase`;
  const permittedCategories = categoriesByType[type];
  const clinicExample = hasClinic(type) ? "--clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001 " : "";
  return defineCommand({
    name,
    summary,
    options: {
      [idOption]: option.id(`id of the ${noun}`),
      ...(hasClinic(type) && { clinic }),
      categories: option.list(
        z
          .array(personalDataCategorySchema.extract([...permittedCategories]))
          .default([...permittedCategories])
          .transform((categories) => [...new Set(categories)]),
        `categories of personal data, separated by commas; default: ${permittedCategories.join(",")}`,
      ),
      reason: option.text(label, "reason, which stays readable forever; must not contain personal data"),
      actor: actorOption,
      json: jsonOption,
    },
    example: `--${idOption} 5f0e8a52-7a3c-4be5-9d0a-8a4a62f7c002 ${clinicExample}--reason 'Request 2026-17'`,
    details: ERASURE_NOTE,
    async run({ clinic: clinicId, categories, reason, actor, json, ...ids }, { env, writeOutput }) {
      const { [idOption]: id = "" } = ids as Record<string, string>;
      const context = createOperatorContext(requireOperator(env, actor), Date.now());
      const person = { type, id, ...(typeof clinicId === "string" && { clinicId }) };
      const erasure = { categories, cause: "request" as const, reason };
      const result = await withReadModels(env, (stores) => erasePerson(stores, person, erasure, context));
      await writeOutput((json ? formatJson : formatText)(name, id, categories, result));
    },
  });
}

export const eraseCommands = [
  defineEraseCommand(
    "customer",
    "customer",
    "Erases a customer's data, also the data of the customer's animals, appointments and queue tickets.",
  ),
  defineEraseCommand("staff", "staff", "Erases the name and email address of a staff member."),
  defineEraseCommand(
    "portal-user",
    "portalUser",
    "Erases the data of a portal user in all clinics, and the user's selected clinic.",
    "user",
  ),
  defineEraseCommand("auditor", "auditor", "Erases the name of a revoked auditor, and the reason of the revocation."),
  defineEraseCommand("appointment", "appointment", "Erases the reason and notes of an appointment without a customer."),
  defineEraseCommand("ticket", "queueTicket", "Erases the notes of a queue ticket without a customer."),
];

function formatJson(command: string, id: string, categories: PersonalDataCategory[], result: ErasureResult) {
  const { isRecorded: changed, position, destroyedKeyCount: destroyedKeys } = result;
  return JSON.stringify({
    command,
    id,
    changed,
    position: position === undefined ? null : String(position),
    categories,
    destroyedKeys,
  });
}

function formatText(command: string, id: string, categories: PersonalDataCategory[], result: ErasureResult) {
  const status = result.isRecorded ? "done" : "was erased before";
  const keysText = `${result.destroyedKeyCount} ${result.destroyedKeyCount === 1 ? "data key" : "data keys"} destroyed`;
  return `${command}: ${status}, id ${id}, ${categories.join(", ")}, ${keysText}
The read models show neutral values. Within 5 seconds, no process can decrypt the data.
${REMAINING_DATA}`;
}
