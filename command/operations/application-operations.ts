import { createHash, randomBytes, randomUUID } from "node:crypto";
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
import { type CommandContext, type Handled, handle, load } from "../handling/handle.ts";
import { openSandbox } from "./sandbox-operations.ts";

/** A client secret in the clear: shown once, never kept. */
export interface IssuedCredential {
  credentialId: string;
  clientSecret: string;
}

/**
 * Registers an application, without credentials. Its id is the OAuth client id. One of the sandbox gets its sandbox
 * with it, so that its first token can use it.
 *
 * @param input.applicationId a random one where absent
 */
export async function registerApplication(
  log: EventLog,
  input: Omit<Parameters<typeof decideRegisterApplication>[0], "applicationId"> & { applicationId?: string },
  context: CommandContext,
): Promise<Handled<Application> & { applicationId: string }> {
  const applicationId = input.applicationId ?? randomUUID();
  const decide = decideRegisterApplication({ ...input, applicationId });
  const ofEnvironment = { ...context, environment: input.environment };
  // The application comes last: once it is there, its sandbox is.
  if (input.environment === "sandbox") {
    decide((await load(log, applicationAggregate, applicationId)).state);
    await openSandbox(log, { applicationId, scopes: input.scopes }, context);
  }
  return {
    ...(await handle(log, applicationAggregate, applicationId, decide, ofEnvironment)),
    applicationId,
  };
}

/** Issues a credential; two may be live at once. The secret is in this answer and nowhere else. */
export async function issueCredential(
  log: EventLog,
  input: { applicationId: string },
  context: CommandContext,
): Promise<IssuedCredential> {
  const clientSecret = newClientSecret();
  const credentialId = randomUUID();
  const decide = decideIssueCredential({ credentialId, secretHash: hashClientSecret(clientSecret) });
  await change(log, input.applicationId, decide, context);
  return { credentialId, clientSecret };
}

/** Revokes a credential; tokens that were exchanged for it are worth nothing from the next request on. */
export function revokeCredential(
  log: EventLog,
  input: { applicationId: string; credentialId: string },
  context: CommandContext,
): Promise<Handled<Application>> {
  return change(log, input.applicationId, decideRevokeCredential(input.credentialId), context);
}

/** Lets the application register webhook endpoints of an origin in production, and receive webhooks there. */
export function approveWebhookOrigin(
  log: EventLog,
  input: { applicationId: string; origin: string },
  context: CommandContext,
): Promise<Handled<Application>> {
  return change(log, input.applicationId, decideApproveWebhookOrigin(input.origin), context);
}

/**
 * Withdraws an approval. No endpoint of the origin can be registered, and deliveries to existing ones are held until
 * the origin is approved again.
 */
export function withdrawWebhookOrigin(
  log: EventLog,
  input: { applicationId: string; origin: string },
  context: CommandContext,
): Promise<Handled<Application>> {
  return change(log, input.applicationId, decideWithdrawWebhookOrigin(input.origin), context);
}

/** Ends an application's access everywhere, for good. */
export function revokeApplication(
  log: EventLog,
  input: { applicationId: string; reason: string | null },
  context: CommandContext,
): Promise<Handled<Application>> {
  return change(log, input.applicationId, decideRevokeApplication(input.reason), context);
}

function change(
  log: EventLog,
  applicationId: string,
  decide: Decision<Application, PartnerApplicationEvent>,
  context: CommandContext,
): Promise<Handled<Application>> {
  return handle(log, applicationAggregate, applicationId, decide, context);
}

/** @returns a new client secret of 256 random bits, as it is shown to the partner once */
export function newClientSecret(): string {
  return `cs_${randomBytes(32).toString("base64url")}`;
}

/** What is kept of a client secret. Plain SHA-256 (hex) does: nobody guesses 256 random bits. */
export function hashClientSecret(secret: string): string {
  return createHash("sha256").update(secret, "utf8").digest("hex");
}
