import { z } from "zod";
import type { DataOf } from "../../shared/domain/events/category.ts";
import { type OperatorEvent, operatorStreams } from "../../shared/domain/events/operator.ts";
import * as operators from "../../shared/domain/operator.ts";
import { operatorAggregate } from "../../shared/domain/operator.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import type { CommandContext } from "../handling/handle.ts";
import { registerOwner } from "./credentials.ts";
import { declareCommand, defineCommandOutsideClinics, type StaffCommand } from "./define-command.ts";

export const OPERATOR_PREFIX = "op";

const { OperatorRegistered, OperatorRevoked } = operatorStreams.events;

/**
 * Registers an operator that runs commands over HTTP. Only the result contains the credential.
 *
 * @throws {DomainError} `operator_exists`, `clinic_not_found`, `expiry_passed`
 */
export function registerOperator(
  log: EventLog,
  operator: Omit<DataOf<OperatorEvent, "OperatorRegistered">, "secretHash">,
  context: CommandContext,
) {
  const owner = { prefix: OPERATOR_PREFIX, id: operator.operatorId, clinicIds: operator.clinicIds };
  const decide = (secretHash: string) => operators.registerOperator({ ...operator, secretHash }, context.now);
  return registerOwner(log, operatorAggregate, owner, decide, context);
}

/** @param commandNames names of the commands that are offered over HTTP */
export function declareOperatorCommands(commandNames: ReadonlySet<string>): StaffCommand[] {
  const commandName = z
    .string()
    .refine((name) => commandNames.has(name), "must be the name of a command that is offered over HTTP");
  const register = declareCommand("operator register", operatorAggregate, {
    summary:
      "Registers a clinic's own system, which may run commands over HTTP. The system's credential is shown only once.",
    input: OperatorRegistered.omit({ secretHash: true }).extend({
      commands: z
        .array(commandName)
        .min(1)
        .nullable()
        .describe("names of the commands, such as 'appointment confirm'; default: all"),
    }),
    creates: "operatorId",
    isImportable: false,
    async run({ log }, registration, context) {
      const { credential, ...result } = await registerOperator(log, registration, context);
      return { ...result, secrets: { credential } };
    },
    example: { name: "Reception desk", clinicIds: ["0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001"] },
  });
  const revoke = defineCommandOutsideClinics("operator revoke", operatorAggregate, {
    summary: "Revokes a system's access permanently, effective from the next request.",
    input: OperatorRevoked,
    decide: operators.revokeOperator,
    example: { reason: "System replaced" },
  });
  return [register, revoke.command];
}
