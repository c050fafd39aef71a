import { randomBytes, randomUUID } from "node:crypto";
import { z } from "zod";
import { uuid } from "../../shared/domain/events/fields.ts";
import { partnerApplicationStreams } from "../../shared/domain/events/partner.ts";
import * as applications from "../../shared/domain/partner/application.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { type CommandContext, type CommandResult, handle, loadAggregate } from "../handling/handle.ts";
import { hashSecret } from "./credentials.ts";
import { declareCommand, defineCommandOutsideClinics } from "./define-command.ts";
import { openSandbox } from "./sandbox-operations.ts";

/** A new credential with its client secret, which is shown only once and never stored. */
interface IssuedCredential {
  credentialId: string;
  clientSecret: string;
}

/**
 * Registers an application without credentials. The application's id is its OAuth client id. For a sandbox application,
 * also opens the sandbox, so that the application's first token can use the sandbox.
 *
 * @param input.applicationId generated if omitted
 */
export async function registerApplication(
  log: EventLog,
  input: Omit<Parameters<typeof applications.registerApplication>[0], "applicationId"> & { applicationId?: string },
  context: CommandContext,
): Promise<CommandResult<applications.Application> & { applicationId: string }> {
  const applicationId = input.applicationId ?? randomUUID();
  const decide = applications.registerApplication({ ...input, applicationId });
  const applicationContext = { ...context, environment: input.environment };
  // The application is registered last, so that a registered application always has its sandbox.
  if (input.environment === "sandbox") {
    decide((await loadAggregate(log, applications.applicationAggregate, applicationId)).state);
    await openSandbox(log, { applicationId, scopes: input.scopes }, context);
  }
  const commandResult = await handle(log, applications.applicationAggregate, applicationId, decide, applicationContext);
  return { ...commandResult, applicationId };
}

/** Issues a credential. An application can have two active credentials. Only the result contains the client secret. */
export async function issueCredential(
  log: EventLog,
  { applicationId }: { applicationId: string },
  context: CommandContext,
): Promise<IssuedCredential & CommandResult<applications.Application>> {
  const clientSecret = generateClientSecret();
  const credentialId = randomUUID();
  const decide = applications.issueCredential({ credentialId, secretHash: hashSecret(clientSecret) });
  const result = await handle(log, applications.applicationAggregate, applicationId, decide, context);
  return { ...result, credentialId, clientSecret };
}

const { ApplicationRegistered, ApplicationRevoked, CredentialIssued, CredentialRevoked } =
  partnerApplicationStreams.events;

export const registerApplicationCommand = declareCommand("partner register", applications.applicationAggregate, {
  summary: "Registers a partner's application in one environment. The application's id is its OAuth client id.",
  input: ApplicationRegistered,
  creates: "applicationId",
  run: ({ log }, registration, context) => registerApplication(log, registration, context),
  example: { name: "Pet Planner", environment: "sandbox", scopes: ["clinic:read", "appointments:read"] },
});

export const revokeApplication = defineCommandOutsideClinics("partner revoke", applications.applicationAggregate, {
  summary: "Revokes an application's access to all clinics permanently.",
  input: ApplicationRevoked,
  decide: applications.revokeApplication,
  example: { reason: "Contract ended" },
});

export const issueCredentialCommand = declareCommand("partner issue-credential", applications.applicationAggregate, {
  summary: "Issues a client secret. The secret is shown only once. An application can have two active secrets.",
  input: CredentialIssued.pick({ applicationId: true }),
  isImportable: false,
  async run({ log }, { applicationId }, context) {
    const { credentialId, clientSecret, ...result } = await issueCredential(log, { applicationId }, context);
    return { ...result, ids: { credentialId }, secrets: { clientSecret } };
  },
});

/** After the revocation, access tokens of the credential are refused within a second. */
export const revokeCredential = defineCommandOutsideClinics(
  "partner revoke-credential",
  applications.applicationAggregate,
  {
    summary: "Revokes a client secret and all access tokens issued for it.",
    input: CredentialRevoked,
    decide: applications.revokeCredential,
  },
);

const originInput = z.object({
  applicationId: uuid,
  origin: z.string().max(300).describe("scheme, host and port, such as https://hooks.example.com"),
});

export const approveWebhookOrigin = defineCommandOutsideClinics(
  "partner approve-origin",
  applications.applicationAggregate,
  {
    summary: "Approves an origin for an application's production webhooks, and releases held deliveries.",
    input: originInput,
    decide: applications.approveWebhookOrigin,
    example: { origin: "https://hooks.example.com" },
  },
);

/** Withdraws the approval of an origin for webhooks. New endpoints at the origin are then refused. */
export const withdrawWebhookOrigin = defineCommandOutsideClinics(
  "partner withdraw-origin",
  applications.applicationAggregate,
  {
    summary: "Withdraws the approval of an origin. Deliveries to the origin are held until it is approved again.",
    input: originInput,
    decide: applications.withdrawWebhookOrigin,
    example: { origin: "https://hooks.example.com" },
  },
);

function generateClientSecret(): string {
  return `cs_${randomBytes(32).toString("base64url")}`;
}
