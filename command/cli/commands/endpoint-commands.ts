import { option } from "../../../shared/command-line/option.ts";
import { environment } from "../../../shared/domain/events/fields.ts";
import { webhookEndpointCategory } from "../../../shared/domain/events/partner.ts";
import {
  disableEndpoint,
  enableEndpoint,
  findEndpoint,
  revokeEndpoint,
  testEndpoint,
} from "../../operations/webhook-endpoint-operations.ts";
import { type DomainCommand, defineDomainCommand } from "../domain-command.ts";

function defineEndpointCommand(verb: string, summary: string, operation: typeof disableEndpoint): DomainCommand {
  return defineDomainCommand(webhookEndpointCategory, {
    name: `endpoint ${verb}`,
    summary,
    example:
      "--id 7d3e5f2a-4b1c-4d6e-8f90-a1b2c3d4e00b --application 4f6d0a9e-8c2b-47d1-b3e5-6a7c8d9e0009 --clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001",
    options: {
      id: option.id("the webhook endpoint"),
      application: option.id("the application that registered the endpoint"),
      clinic: option.id("the clinic whose events the endpoint receives"),
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
  defineDomainCommand(webhookEndpointCategory, {
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
