import { z } from "zod";
import { operatorStreams } from "../../shared/domain/events/operator.ts";
import * as operators from "../../shared/domain/operator.ts";
import { defineRegistration } from "./credentials.ts";
import { declareCommand, defineCommandOutsideClinics, type StaffCommand } from "./define-command.ts";

export const OPERATOR_PREFIX = "op";

const { OperatorRegistered, OperatorRevoked } = operatorStreams.events;

/**
 * Registers an operator that runs commands over HTTP. Only the result contains the credential.
 *
 * @throws {DomainError} `operator_exists`, `clinic_not_found`, `expiry_passed`
 */
export const registerOperator = defineRegistration(
  OPERATOR_PREFIX,
  operators.operatorAggregate,
  operators.registerOperator,
);

/** @param commandNames names of the commands that are offered over HTTP */
export function declareOperatorCommands(commandNames: ReadonlySet<string>): StaffCommand[] {
  const commandName = z
    .string()
    .refine((name) => commandNames.has(name), "must be the name of a command that is offered over HTTP");
  const register = declareCommand("operator register", operators.operatorAggregate, {
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
    run: ({ log }, registration, context) => registerOperator(log, registration, context),
    example: { name: "Reception desk", clinicIds: ["0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001"] },
  });
  const revoke = defineCommandOutsideClinics("operator revoke", operators.operatorAggregate, {
    summary: "Revokes a system's access permanently, effective from the next request.",
    input: OperatorRevoked,
    decide: operators.revokeOperator,
    example: { reason: "System replaced" },
  });
  return [register, revoke.command];
}
