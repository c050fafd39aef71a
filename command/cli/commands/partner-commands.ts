import { z } from "zod";
import { option } from "../../../shared/command-line/option.ts";
import { label } from "../../../shared/domain/events/fields.ts";
import { partnerApplicationStreams, scopes } from "../../../shared/domain/events/partner.ts";
import {
  approveWebhookOrigin,
  issueCredential,
  registerApplication,
  revokeApplication,
  revokeCredential,
  withdrawWebhookOrigin,
} from "../../operations/application-operations.ts";
import { type DomainCommand, defineDomainCommand } from "../domain-command.ts";

const applicationFields = partnerApplicationStreams.events.ApplicationRegistered.shape;
const EXAMPLE_APPLICATION_ID = "4f6d0a9e-8c2b-47d1-b3e5-6a7c8d9e0009";

const application = option.id("the application");
const reason = option.nullableText(label, "reason");
const origin = option.text(z.string().max(300), "scheme, host and port, such as https://hooks.example.com", "origin");

export const partnerCommands: DomainCommand[] = [
  defineDomainCommand(partnerApplicationStreams, {
    name: "partner register",
    summary: "Registers a partner's application in one environment. The application's id is its OAuth client id.",
    example: "--name 'Pet Planner' --environment sandbox --scopes clinic:read,appointments:read",
    options: {
      id: option.newId("the new application's id"),
      name: option.text(applicationFields.name, "name"),
      environment: option.text(applicationFields.environment, "sandbox or production", "name"),
      scopes: option.list(applicationFields.scopes, `scopes, separated by commas: ${scopes.join(", ")}`, "scopes"),
    },
    run: (log, { id: applicationId, ...details }, context) =>
      registerApplication(log, { applicationId, ...details }, context),
  }),
  defineDomainCommand(partnerApplicationStreams, {
    name: "partner revoke",
    summary: "Revokes an application's access to all clinics permanently.",
    example: `--id ${EXAMPLE_APPLICATION_ID} --reason 'Contract ended'`,
    options: { id: application, reason },
    run: (log, { id: applicationId, reason }, context) => revokeApplication(log, { applicationId, reason }, context),
  }),
  defineDomainCommand(partnerApplicationStreams, {
    name: "partner issue-credential",
    summary: "Issues a client secret. The secret is shown only once. An application can have two active secrets.",
    example: `--application ${EXAMPLE_APPLICATION_ID}`,
    options: { application },
    isImportable: false,
    getStreamId: (values) => values.application,
    run: async (log, { application: applicationId }, context) => {
      const { credentialId, clientSecret } = await issueCredential(log, { applicationId }, context);
      const extraValues = { clientId: applicationId, credentialId, clientSecret };
      return { events: [credentialId], position: undefined, extraValues };
    },
  }),
  defineDomainCommand(partnerApplicationStreams, {
    name: "partner revoke-credential",
    summary: "Revokes a client secret and all access tokens issued for it.",
    example: `--application ${EXAMPLE_APPLICATION_ID} --credential 1e2d3c4b-5a69-4788-96a5-b4c3d2e1f00a`,
    options: { application, credential: option.id("the credential") },
    getStreamId: (values) => values.application,
    run: (log, { application: applicationId, credential: credentialId }, context) =>
      revokeCredential(log, { applicationId, credentialId }, context),
  }),
  defineDomainCommand(partnerApplicationStreams, {
    name: "partner approve-origin",
    summary: "Approves an origin for an application's production webhooks, and releases held deliveries.",
    example: `--application ${EXAMPLE_APPLICATION_ID} --origin https://hooks.example.com`,
    options: { application, origin },
    getStreamId: (values) => values.application,
    run: (log, { application: applicationId, origin }, context) =>
      approveWebhookOrigin(log, { applicationId, origin }, context),
  }),
  defineDomainCommand(partnerApplicationStreams, {
    name: "partner withdraw-origin",
    summary: "Withdraws the approval of an origin. Deliveries to the origin are held until it is approved again.",
    example: `--application ${EXAMPLE_APPLICATION_ID} --origin https://hooks.example.com`,
    options: { application, origin },
    getStreamId: (values) => values.application,
    run: (log, { application: applicationId, origin }, context) =>
      withdrawWebhookOrigin(log, { applicationId, origin }, context),
  }),
];
