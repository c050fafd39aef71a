import { z } from "zod";
import { DomainError } from "../../shared/domain/domain-error.ts";
import { instant } from "../../shared/domain/events/fields.ts";
import { webhookEndpointStreams } from "../../shared/domain/events/partner.ts";
import { type Endpoint, endpointAggregate } from "../../shared/domain/partner/webhook-endpoint.ts";
import { requireExisting } from "../../shared/domain/preconditions.ts";
import { declareCommand, type StaffCommand } from "./define-command.ts";
import type { Operation } from "./operation.ts";
import { requestReplay } from "./replay-operations.ts";
import * as endpoints from "./webhook-endpoint-operations.ts";

const input = webhookEndpointStreams.events.WebhookEndpointEnabled;

function declareChange(
  verb: string,
  summary: string,
  change: Operation<endpoints.EndpointReference, Endpoint>,
): StaffCommand {
  return declareCommand(`endpoint ${verb}`, endpointAggregate, {
    summary,
    input,
    run: async ({ log }, { endpointId }, context) =>
      change(log, await endpoints.findEndpoint(log, endpointId), context),
  });
}

/** Operators' commands about webhook endpoints of any owner. */
export const endpointCommands: readonly StaffCommand[] = [
  declareChange(
    "disable",
    "Stops deliveries to a webhook endpoint until the endpoint is enabled again.",
    endpoints.disableEndpoint,
  ),
  declareChange("enable", "Enables a disabled webhook endpoint and resumes its deliveries.", endpoints.enableEndpoint),
  declareChange("revoke", "Revokes a webhook endpoint permanently.", endpoints.revokeEndpoint),
  declareCommand("endpoint rotate-secret", endpointAggregate, {
    summary:
      "Issues a new signing secret for a webhook endpoint. The secret is shown only once. The previous secret stays valid for 24 hours. Uses WEBHOOK_SECRET_KEYS.",
    input: input.extend({ isLeaked: z.boolean().describe("stop signing with the previous secret immediately") }),
    isImportable: false,
    async run(dependencies, { endpointId, isLeaked }, context) {
      const endpoint = await endpoints.findEndpoint(dependencies.log, endpointId);
      const { secret, statePosition } = await endpoints.rotateSecret(dependencies, { ...endpoint, isLeaked }, context);
      return { events: [{ type: "WebhookSecretRotated" }], position: statePosition, secrets: { secret } };
    },
  }),
  declareCommand("endpoint replay", endpointAggregate, {
    summary:
      "Replays all failed and skipped deliveries of a webhook endpoint that were created since the given time. Repeating the command with the same values changes nothing.",
    input: input.extend({
      since: instant.describe("replay deliveries that were created at this time or later"),
      until: instant
        .exactOptional()
        .describe("replay only deliveries that were created before this time; default: now"),
    }),
    isImportable: false,
    async run({ log }, { endpointId, since, until }, context) {
      if (until !== undefined && until <= since)
        throw new DomainError("until_before_since", "until must be later than since");
      const endpoint = await endpoints.findEndpoint(log, endpointId);
      // A partner's key contains no line break, so partners cannot use this key.
      const idempotencyKey = ["operator", since, until ?? ""].join("\n");
      const replay = { ...endpoint, request: { since, ...(until !== undefined && { until }) }, idempotencyKey };
      const { initialState, ...result } = await requestReplay(log, replay, context);
      return { ...result, ids: { replayId: requireExisting(initialState, "replay").id } };
    },
    example: { since: "2026-05-04T00:00:00Z" },
  }),
  declareCommand("webhooks test", endpointAggregate, {
    summary: "Sends a test event to one webhook endpoint.",
    input,
    isImportable: false,
    async run({ log }, { endpointId }, context) {
      const { deliveryId, ...result } = await endpoints.testEndpoint(
        log,
        await endpoints.findEndpoint(log, endpointId),
        context,
      );
      return { ...result, ids: { deliveryId } };
    },
  }),
];
