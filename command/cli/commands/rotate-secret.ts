import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import { defineCommand } from "../../../shared/command-line/command-line.ts";
import { actorOption, requireOperator } from "../../../shared/command-line/operator.ts";
import { jsonOption, option } from "../../../shared/command-line/option.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { createOperatorContext, withEventLog } from "../../handling/operator.ts";
import { findEndpoint, rotateSecret } from "../../operations/webhook-endpoint-operations.ts";
import { formatResult } from "../domain-command.ts";

const COMMAND_NAME = "endpoint rotate-secret";

export const rotateSecretCommand = defineCommand({
  name: COMMAND_NAME,
  summary:
    "Issues a new signing secret for a webhook endpoint. The secret is shown only once. The previous secret stays valid for 24 hours.",
  options: {
    id: option.id("the webhook endpoint"),
    leaked: option.flag("stop signing with the previous secret immediately"),
    actor: actorOption,
    json: jsonOption,
  },
  example: "--id 7d3e5f2a-4b1c-4d6e-8f90-a1b2c3d4e00b --leaked",
  details: "The secret is encrypted with WEBHOOK_SECRET_KEYS. Use the same keys as the running services.",
  async run({ id, leaked: isLeaked, actor, json }, { env, writeOutput }) {
    const context = createOperatorContext(requireOperator(env, actor), Date.now());
    const secretBox = createSecretBox(readConfig(["WEBHOOK_SECRET_KEYS"], env).WEBHOOK_SECRET_KEYS);
    const { secret, statePosition } = await withEventLog(env, async (log) =>
      rotateSecret({ log, secretBox }, { ...(await findEndpoint(log, id)), isLeaked }, context),
    );
    const printedResult = { id, eventCount: 1, position: statePosition, extraValues: { secret } };
    await writeOutput(formatResult(COMMAND_NAME, printedResult, json));
  },
});
