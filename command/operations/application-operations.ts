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

/** A new credential with its client secret, which is shown only once and never stored. */
export interface IssuedCredential {
  credentialId: string;
  clientSecret: string;
}

/**
 * Registers an application without credentials. Its id is the OAuth client id. For a sandbox application, the sandbox
 * is opened too, so that its first token can use it.
 *
 * @param input.applicationId generated if omitted
 */
export async function registerApplication(
  log: EventLog,
  input: Omit<Parameters<typeof decideRegisterApplication>[0], "applicationId"> & { applicationId?: string },
  context: CommandContext,
): Promise<Handled<Application> & { applicationId: string }> {
  const applicationId = input.applicationId ?? randomUUID();
  const decide = decideRegisterApplication({ ...input, applicationId });
  const ofEnvironment = { ...context, environment: input.environment };
  // The application is registered last, so that a registered application always has its sandbox.
  if (input.environment === "sandbox") {
    decide((await load(log, applicationAggregate, applicationId)).state);
    await openSandbox(log, { applicationId, scopes: input.scopes }, context);
  }
  return {
    ...(await handle(log, applicationAggregate, applicationId, decide, ofEnvironment)),
    applicationId,
  };
}

/** Issues a credential. Two may be active at a time. The secret is only in the result. */
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

/** Revokes a credential. Its access tokens are refused from the next request. */
export function revokeCredential(
  log: EventLog,
  input: { applicationId: string; credentialId: string },
  context: CommandContext,
): Promise<Handled<Application>> {
  return change(log, input.applicationId, decideRevokeCredential(input.credentialId), context);
}

/** Allows the application to register webhook endpoints of an origin in production and to receive webhooks there. */
export function approveWebhookOrigin(
  log: EventLog,
  input: { applicationId: string; origin: string },
  context: CommandContext,
): Promise<Handled<Application>> {
  return change(log, input.applicationId, decideApproveWebhookOrigin(input.origin), context);
}

/**
 * Withdraws the approval of an origin. New endpoints of the origin are refused, and deliveries to existing endpoints
 * are held until it is approved again.
 */
export function withdrawWebhookOrigin(
  log: EventLog,
  input: { applicationId: string; origin: string },
  context: CommandContext,
): Promise<Handled<Application>> {
  return change(log, input.applicationId, decideWithdrawWebhookOrigin(input.origin), context);
}

/** Revokes an application's access to all clinics permanently. */
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

/** @returns a new client secret of 256 random bits */
export function newClientSecret(): string {
  return `cs_${randomBytes(32).toString("base64url")}`;
}

/** Hashes a client secret for storage. Plain SHA-256 (hex) is sufficient for 256 random bits. */
export function hashClientSecret(secret: string): string {
  return createHash("sha256").update(secret, "utf8").digest("hex");
}
