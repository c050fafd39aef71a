import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import { defineCommand } from "../../../shared/command-line/command-line.ts";
import { formatCount } from "../../../shared/command-line/format-count.ts";
import { actorOption, requireOperator } from "../../../shared/command-line/operator.ts";
import { jsonOption, option } from "../../../shared/command-line/option.ts";
import { createProgressBar } from "../../../shared/command-line/progress-bar.ts";
import { environment, instant, uuid } from "../../../shared/domain/events/fields.ts";
import { webhookEndpointStreams } from "../../../shared/domain/events/partner.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { createOperatorContext, withEventLog } from "../../handling/operator.ts";
import { type RecoveryProgress, recoverDeliveries } from "../../operations/recover-deliveries.ts";
import {
  disableEndpoint,
  enableEndpoint,
  findEndpoint,
  revokeEndpoint,
  rotateSecret,
  testEndpoint,
} from "../../operations/webhook-endpoint-operations.ts";
import { type DomainCommand, defineDomainCommand, formatResult } from "../domain-command.ts";

function defineEndpointCommand(verb: string, summary: string, operation: typeof disableEndpoint): DomainCommand {
  return defineDomainCommand(webhookEndpointStreams, {
    name: `endpoint ${verb}`,
    summary,
    example:
      "--id 7d3e5f2a-4b1c-4d6e-8f90-a1b2c3d4e00b --application 4f6d0a9e-8c2b-47d1-b3e5-6a7c8d9e0009 --clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001",
    options: {
      id: option.id("the webhook endpoint"),
      application: option.id("the application that registered the endpoint"),
      clinic: option.nullableText(uuid, "clinic of the endpoint; omit it for an endpoint of the application", "id"),
      environment: option.text(
        environment.default("production"),
        "environment of the application: sandbox or production; default: production",
        "name",
      ),
    },
    run: (log, { id: endpointId, application: applicationId, clinic: clinicId, environment }, context) =>
      operation(log, { endpointId, owner: { applicationId, clinicId, environment } }, context),
  });
}

export const endpointCommands: DomainCommand[] = [
  defineEndpointCommand(
    "disable",
    "Stops deliveries to a webhook endpoint until the endpoint is enabled again.",
    disableEndpoint,
  ),
  defineEndpointCommand("enable", "Enables a disabled webhook endpoint and resumes its deliveries.", enableEndpoint),
  defineEndpointCommand("revoke", "Revokes a webhook endpoint permanently.", revokeEndpoint),
  defineDomainCommand(webhookEndpointStreams, {
    name: "webhooks test",
    summary: "Sends a test event to one webhook endpoint.",
    example: "--endpoint 7d3e5f2a-4b1c-4d6e-8f90-a1b2c3d4e00b",
    options: { endpoint: option.id("the webhook endpoint") },
    isImportable: false,
    getStreamId: (values) => values.endpoint,
    run: async (log, { endpoint: endpointId }, context) => {
      const reference = await findEndpoint(log, endpointId);
      const { events, position, deliveryId } = await testEndpoint(log, reference, context);
      return { events, position, extraValues: { delivery: deliveryId } };
    },
  }),
];

export const rotateSecretCommand = defineCommand({
  name: "endpoint rotate-secret",
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
    await writeOutput(formatResult("endpoint rotate-secret", printedResult, json));
  },
});

const RECOVER = "webhooks recover";

const time = instant.transform((text) => Date.parse(text));

/** If the recovery stops with an error, the replays that were already requested are kept. */
export const recoverWebhooksCommand = defineCommand({
  name: RECOVER,
  summary:
    "Replays all deliveries of an endpoint that failed or were skipped since the given time. A second run replays only those still failed or skipped.",
  options: {
    endpoint: option.id("the webhook endpoint"),
    since: option.text(time, "replay deliveries that failed or were skipped at or after this time, RFC 3339", "time"),
    until: option.text(
      time.optional(),
      "replay only deliveries that failed or were skipped before this time, RFC 3339",
      "time",
    ),
    dryRun: option.flag("count the deliveries without replaying them"),
    actor: actorOption,
    json: jsonOption,
  },
  example: "--endpoint 7d3e5f2a-4b1c-4d6e-8f90-a1b2c3d4e00b --since 2026-05-04T00:00:00Z --dry-run",
  async run({ endpoint: endpointId, since, until, dryRun: isDryRun, actor, json }, terminal) {
    const context = createOperatorContext(requireOperator(terminal.env, actor), Date.now());
    let progressBar: ReturnType<typeof createProgressBar> | undefined;
    const finalProgress = await withEventLog(terminal.env, (log, client) =>
      recoverDeliveries({ log, client }, { endpointId, since, until, isDryRun }, context, (progress) => {
        progressBar ??= createProgressBar(RECOVER, progress.found, terminal);
        const processedCount = progress.requested + progress.left;
        progressBar.show(processedCount, `${processedCount} of ${progress.found} deliveries`);
      }),
    );
    await terminal.writeOutput(
      json
        ? JSON.stringify({ command: RECOVER, id: endpointId, dryRun: isDryRun, ...finalProgress })
        : formatRecovery(finalProgress, isDryRun),
    );
  },
});

function formatRecovery({ found, requested, left, unreadable }: RecoveryProgress, isDryRun: boolean): string {
  const summary = isDryRun
    ? `${formatCount(found, "delivery")} failed or ${found === 1 ? "was" : "were"} skipped; none was replayed (dry run)`
    : `${requested} of ${found} deliveries will be replayed${left > 0 ? `; ${left} could not be replayed` : ""}`;
  const unreadableText =
    unreadable > 0 ? `; ${unreadable} of all deliveries have events that this release cannot read` : "";
  return `${RECOVER}: ${summary}${unreadableText}`;
}
