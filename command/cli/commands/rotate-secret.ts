import { z } from "zod";
import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import { uuid } from "../../../shared/domain/events/fields.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { findEndpoint, rotateSecret } from "../../operations/webhook-endpoint-operations.ts";
import { problemsOf } from "../framework/command.ts";
import { InputError, problemsLine } from "../framework/failure.ts";
import { operatorContext, withEventLog } from "../framework/operator.ts";
import { optionName, outcomeLine, type Terminal } from "../framework/run-command.ts";

/** Options of `endpoint rotate-secret` on the command line. */
export interface RotateOptions {
  id?: string;
  leaked?: boolean;
  actor?: string;
  json?: boolean;
}

const schema = z.object({ id: uuid, leaked: z.boolean().default(false) });

/**
 * Issues a new signing secret for an endpoint and prints it. The secret is shown only once.
 *
 * @throws {InputError} that names the invalid options
 * @throws {ConfigError} if the keys that encrypt webhook secrets are missing
 * @throws {DomainError | LogUnavailableError}
 */
export async function rotateEndpointSecret(words: RotateOptions, terminal: Terminal): Promise<void> {
  const { actor, json, ...given } = words;
  const checked = schema.safeParse(given);
  if (!checked.success) throw new InputError(problemsLine(problemsOf(checked.error, given), optionName));
  const { id, leaked } = checked.data;
  const context = operatorContext(actor, Date.now());
  const secretBox = createSecretBox(readConfig(["WEBHOOK_SECRET_KEYS"], terminal.env).WEBHOOK_SECRET_KEYS);
  const { secret, seen } = await withEventLog(terminal.env, async (log) =>
    rotateSecret({ log, secretBox }, { ...(await findEndpoint(log, id)), leaked }, context),
  );
  const outcome = { id, events: 1, position: seen, shown: { secret } };
  await terminal.out(outcomeLine({ noun: "endpoint", verb: "rotate-secret" }, outcome, json));
}
