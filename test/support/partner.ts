import { getDataKeySettings } from "./data-keys.ts";
/**
 * Starts a command service in this process on the shared servers. Creates clinics with branches, an animal and an
 * administrator, and applications with a credential that are installed at a clinic.
 */

import { randomBytes, randomUUID } from "node:crypto";
import { exportJWK, generateKeyPair, type JWK } from "jose";
import type { CommandContext } from "../../command/handling/handle.ts";
import { issueCredential, registerApplication } from "../../command/operations/application-operations.ts";
import { openBranch, registerClinic } from "../../command/operations/clinic-operations.ts";
import { registerAnimal, registerCustomer } from "../../command/operations/customer-operations.ts";
import {
  approveInstallation,
  type InstallationReference,
  requestInstallation,
} from "../../command/operations/installation-operations.ts";
import { grantMembership } from "../../command/operations/people-operations.ts";
import { startCommandService } from "../../command/start.ts";
import type { Environment } from "../../shared/domain/events/fields.ts";
import { type AnimalAccess, type Scope, scopes } from "../../shared/domain/events/partner.ts";
import { connectEventStore } from "../../shared/eventstore/connect.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { requireNoSniffing } from "./no-sniffing.ts";
import { checkPartnerResponse } from "./partner-document.ts";
import { createPlainLog } from "./plain-log.ts";
import { autoStop, releaseLater } from "./resources.ts";
import { getTestServers } from "./stack.ts";

export const TOKEN_ISSUER = "http://partners.test";

export interface TestCommand {
  url: string;
  log: EventLog;
  /** The private key with which the service signs access tokens. */
  signingKey: JWK;
  stop(): Promise<void>;
}

/** @param env settings that override the defaults */
export async function startTestCommandService(env: Record<string, string> = {}): Promise<TestCommand> {
  const { eventstoreUrl } = await getTestServers();
  const { privateKey } = await generateKeyPair("EdDSA", { extractable: true });
  const signingKey = { ...(await exportJWK(privateKey)), kid: "test" };
  const settings = {
    PORT: "0",
    LOG_LEVEL: "fatal",
    EVENTSTORE_URL: eventstoreUrl,
    TOKEN_ISSUER,
    TOKEN_SIGNING_KEYS: JSON.stringify({ keys: [signingKey] }),
    WEBHOOK_SECRET_KEYS: JSON.stringify({ current: "k1", keys: { k1: randomBytes(32).toString("base64") } }),
    WEBHOOK_ALLOW_LOOPBACK: "true",
    ...(await getDataKeySettings()),
    ...env,
  };
  const service = await autoStop(startCommandService(settings));
  const client = connectEventStore(settings.EVENTSTORE_URL, "test");
  return {
    url: service.url,
    log: createPlainLog(client),
    signingKey,
    stop: releaseLater(async () => {
      await service.stop();
      await client.dispose();
    }),
  };
}

export function createTestOperatorContext(now = Date.now()): CommandContext {
  const id = randomUUID();
  const actor = { type: "operator", id: "test" } as const;
  return { actor, clinicId: null, environment: null, correlationId: id, causationId: id, now };
}

export interface TestClinic {
  environment: Environment;
  clinicId: string;
  /** Id of the main branch. */
  branchId: string;
  otherBranchId: string;
  customerId: string;
  animalId: string;
  /** Id of the clinic administrator's membership. */
  membershipId: string;
}

export async function createClinic(log: EventLog, environment: Environment = "production"): Promise<TestClinic> {
  const [clinicId, branchId, otherBranchId, customerId, animalId, membershipId] = Array.from({ length: 6 }, () =>
    randomUUID(),
  ) as [string, string, string, string, string, string];
  const context = createTestOperatorContext();
  const location = { timezone: "Europe/Istanbul", currency: "TRY", locale: "tr-TR", city: null };
  const demoFields = { isDemo: false, demoExpiresAt: null };
  const slug = `clinic-${clinicId}`;
  await registerClinic(log, { clinicId, environment, slug, name: "Happy Paws", ...location, ...demoFields }, context);
  await openBranch(log, { clinicId, branchId, name: "Center", city: null }, context);
  await openBranch(log, { clinicId, branchId: otherBranchId, name: "Harbour", city: null }, context);
  const contact = { fullName: "Ada Yilmaz", phone: null, email: null, city: null };
  const animal = { name: "Pamuk", species: "cat", breed: null, sex: null, birthDate: null };
  const membership = {
    userId: randomUUID(),
    staffId: null,
    role: "owner" as const,
    permissions: ["manage_tenant" as const],
    branchAccess: "all" as const,
    branchIds: [],
    acceptedAt: "2026-03-01T08:00:00.000Z",
  };
  await registerCustomer(log, { customerId, clinicId, ...contact }, context);
  await registerAnimal(log, { animalId, clinicId, customerId, ...animal, microchip: null, weightKg: null }, context);
  await grantMembership(log, { membershipId, clinicId, ...membership }, context);
  return { environment, clinicId, branchId, otherBranchId, customerId, animalId, membershipId };
}

export interface TestApplication {
  environment: Environment;
  applicationId: string;
  credentialId: string;
  clientSecret: string;
}

export async function createApplication(
  log: EventLog,
  environment: Environment = "production",
  grantedScopes: readonly Scope[] = scopes,
): Promise<TestApplication> {
  const context = createTestOperatorContext();
  const input = { environment, name: "Calendar", scopes: [...grantedScopes] };
  const { applicationId } = await registerApplication(log, input, context);
  const { credentialId, clientSecret } = await issueCredential(log, { applicationId }, context);
  return { environment, applicationId, credentialId, clientSecret };
}

/** Requests and approves an installation. */
export async function installApplication(
  log: EventLog,
  { applicationId }: TestApplication,
  { clinicId, membershipId }: TestClinic,
  grant: { scopes?: Scope[]; branchIds?: string[]; animalAccess?: AnimalAccess; rateLimitPerMinute?: number } = {},
): Promise<InstallationReference> {
  const context = createTestOperatorContext();
  await requestInstallation(log, { applicationId, clinicId }, context);
  await approveInstallation(
    log,
    { applicationId, clinicId, membershipId, animalAccess: "all", rateLimitPerMinute: 100_000, ...grant },
    context,
  );
  return { applicationId, clinicId };
}

/** A clinic, an application that is installed there, and the application's access token. */
export interface PartnerWorld extends TestClinic, TestApplication {
  token: string;
  /** Headers with the token and the clinic. */
  headers: Record<string, string>;
}

/** @param command the service that issues the token */
export async function createPartnerWorld(
  command: Pick<TestCommand, "url" | "log">,
  environment: Environment = "production",
  grant: Parameters<typeof installApplication>[3] = {},
): Promise<PartnerWorld> {
  const { log } = command;
  const clinic = await createClinic(log, environment);
  const application = await createApplication(log, environment);
  await installApplication(log, application, clinic, grant);
  const { status, body } = await sendTokenRequest(command.url, application);
  if (status !== 200) throw new Error(`no token: ${status} ${body.error}`);
  const token = body.access_token;
  const headers = { Authorization: `Bearer ${token}`, "X-SERVICE-Clinic-ID": clinic.clinicId };
  return { ...clinic, ...application, token, headers };
}

export interface PartnerResponse {
  status: number;
  headers: Headers;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: each test checks the body that it expects
  body: any;
}

/**
 * Sends a request and parses the JSON response. Fails if the response differs from the partner API's document.
 *
 * @param body strings are sent unchanged, other values as JSON
 */
export async function sendRequest(
  method: "GET" | "POST" | "PATCH" | "DELETE" | "PUT",
  url: string,
  headers: Record<string, string> = {},
  body?: unknown,
): Promise<PartnerResponse> {
  const bodyInit = body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) };
  const typeHeaders = body === undefined ? {} : { "Content-Type": "application/json" };
  const response = await fetch(url, { method, headers: { ...typeHeaders, ...headers }, ...bodyInit });
  const text = await response.text();
  const { status, headers: responseHeaders } = response;
  requireNoSniffing(response);
  const parsedResponse = { status, headers: responseHeaders, text, body: JSON.parse(text) };
  checkPartnerResponse(method, url, parsedResponse);
  return parsedResponse;
}

/** Requests a token. @param fields replace fields of a valid request; `undefined` removes a field */
export function sendTokenRequest(
  url: string,
  { applicationId, clientSecret, environment }: TestApplication,
  fields: Record<string, unknown> = {},
): Promise<PartnerResponse> {
  const request = {
    client_id: applicationId,
    client_secret: clientSecret,
    grant_type: "client_credentials",
    environment,
    ...fields,
  };
  return sendRequest("POST", `${url}/${environment}/v1/oauth/token`, {}, request);
}
