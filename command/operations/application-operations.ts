import { hash, randomBytes, randomUUID } from "node:crypto";
import type { Decision } from "../../shared/domain/aggregate.ts";
import type { PartnerApplicationEvent } from "../../shared/domain/events/partner.ts";
import {
  type Application,
  applicationAggregate,
  decideApproveWebhookOrigin,
  decideIssueCredential,
  decideRegisterApplication,
  decideRevokeApplication,
  decideRevokeCredential,
  decideWithdrawWebhookOrigin,
} from "../../shared/domain/partner/application.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { type CommandContext, type CommandResult, handle, loadAggregate } from "../handling/handle.ts";
import type { Operation } from "./operation.ts";
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
  input: Omit<Parameters<typeof decideRegisterApplication>[0], "applicationId"> & { applicationId?: string },
  context: CommandContext,
): Promise<CommandResult<Application> & { applicationId: string }> {
  const applicationId = input.applicationId ?? randomUUID();
  const decide = decideRegisterApplication({ ...input, applicationId });
  const applicationContext = { ...context, environment: input.environment };
  // The application is registered last, so that a registered application always has its sandbox.
  if (input.environment === "sandbox") {
    decide((await loadAggregate(log, applicationAggregate, applicationId)).state);
    await openSandbox(log, { applicationId, scopes: input.scopes }, context);
  }
  const commandResult = await handle(log, applicationAggregate, applicationId, decide, applicationContext);
  return { ...commandResult, applicationId };
}

/** Issues a credential. An application can have two active credentials. Only the result contains the client secret. */
export async function issueCredential(
  log: EventLog,
  { applicationId }: { applicationId: string },
  context: CommandContext,
): Promise<IssuedCredential> {
  const clientSecret = generateClientSecret();
  const credentialId = randomUUID();
  const decide = decideIssueCredential({ credentialId, secretHash: hashClientSecret(clientSecret) });
  await handle(log, applicationAggregate, applicationId, decide, context);
  return { credentialId, clientSecret };
}

function defineOperation<Command extends { applicationId: string }>(
  decide: (command: Command) => Decision<Application, PartnerApplicationEvent>,
): Operation<Command, Application> {
  return (log, command, context) => handle(log, applicationAggregate, command.applicationId, decide(command), context);
}

/** Revokes a credential. Access tokens of the credential are refused within a second. */
export const revokeCredential = defineOperation((command: { applicationId: string; credentialId: string }) =>
  decideRevokeCredential(command.credentialId),
);

/** In production, allows an application to register webhook endpoints at an origin and to receive webhooks there. */
export const approveWebhookOrigin = defineOperation((command: { applicationId: string; origin: string }) =>
  decideApproveWebhookOrigin(command.origin),
);

/**
 * Withdraws the approval of an origin. New endpoints at the origin are refused. Deliveries to existing endpoints at the
 * origin are held until the operator approves the origin again.
 */
export const withdrawWebhookOrigin = defineOperation((command: { applicationId: string; origin: string }) =>
  decideWithdrawWebhookOrigin(command.origin),
);

/** Permanently revokes an application's access to all clinics. */
export const revokeApplication = defineOperation((command: { applicationId: string; reason: string | null }) =>
  decideRevokeApplication(command.reason),
);

function generateClientSecret(): string {
  return `cs_${randomBytes(32).toString("base64url")}`;
}

/** Hashes a client secret for storage, with SHA-256 (hex). 256 random bits need no salt and no slow hash. */
export function hashClientSecret(secret: string): string {
  return hash("sha256", secret);
}
