import { z } from "zod";
import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import { uuid } from "../../../shared/domain/events/fields.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { findEndpoint, rotateSecret } from "../../operations/webhook-endpoint-operations.ts";
import { createOperatorContext, requireOperator, withEventLog } from "../framework/operator.ts";
import { formatResult, parseOptions, type RawOptions, type Terminal } from "../framework/run-command.ts";

const schema = z.object({
  id: uuid,
  leaked: z.boolean().default(false),
  actor: z.string().optional(),
  json: z.boolean().optional(),
});

/**
 * Runs `endpoint rotate-secret`: issues a new signing secret for an endpoint and prints the secret, which is shown only
 * once.
 *
 * @throws {InputError} that names the invalid options
 * @throws {ConfigError} if the keys that encrypt webhook secrets are missing
 * @throws {DomainError | LogUnavailableError}
 */
export async function rotateEndpointSecret(rawOptions: RawOptions, terminal: Terminal): Promise<void> {
  const { id, leaked: isLeaked, actor, json } = parseOptions(schema, rawOptions);
  const context = createOperatorContext(requireOperator(terminal.env, actor), Date.now());
  const secretBox = createSecretBox(readConfig(["WEBHOOK_SECRET_KEYS"], terminal.env).WEBHOOK_SECRET_KEYS);
  const { secret, statePosition } = await withEventLog(terminal.env, async (log) =>
    rotateSecret({ log, secretBox }, { ...(await findEndpoint(log, id)), isLeaked }, context),
  );
  const printedResult = { id, eventCount: 1, position: statePosition, extraValues: { secret } };
  await terminal.writeOutput(formatResult({ noun: "endpoint", verb: "rotate-secret" }, printedResult, json));
}
