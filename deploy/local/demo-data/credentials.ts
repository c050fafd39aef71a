import { randomUUID } from "node:crypto";
import fs from "node:fs";
import { SignJWT } from "jose";
import { z } from "zod";
import { loadAggregate } from "../../../command/handling/handle.ts";
import { createOperatorContext } from "../../../command/handling/operator.ts";
import { issueCredential, revokeCredential } from "../../../command/operations/application-operations.ts";
import { registerAuditor } from "../../../command/operations/auditor-operations.ts";
import { hashSecret, parseCredential } from "../../../command/operations/credentials.ts";
import { OPERATOR_PREFIX, registerOperator } from "../../../command/operations/operator-operations.ts";
import { auditorAggregate } from "../../../shared/domain/audit/auditor.ts";
import { operatorAggregate } from "../../../shared/domain/operator.ts";
import { applicationAggregate } from "../../../shared/domain/partner/application.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { replaceFile } from "../setup/local-root.ts";
import { DEMO_OPERATOR } from "./steps.ts";

/** Client secrets by application id, and the credentials of the auditor and the operator. */
const credentialsSchema = z.record(z.string(), z.string());

/**
 * Returns a valid client secret for each application. Reuses a valid secret from the file. Otherwise revokes the
 * application's credentials, issues a new secret and saves it in the file. A lost secret cannot be read from the log,
 * because the log contains only hashes.
 */
export async function ensureClientSecrets(
  log: EventLog,
  applicationIds: string[],
  file: string,
  now: number,
): Promise<Record<string, string>> {
  const savedCredentials = readCredentials(file);
  const secrets: Record<string, string> = {};
  for (const applicationId of applicationIds) {
    const savedSecret = savedCredentials[applicationId];
    const savedHash = savedSecret && hashSecret(savedSecret);
    const credentials = (await loadAggregate(log, applicationAggregate, applicationId)).state?.credentials ?? [];
    if (savedSecret && credentials.some(({ secretHash }) => secretHash === savedHash)) {
      secrets[applicationId] = savedSecret;
      continue;
    }
    const context = createOperatorContext(DEMO_OPERATOR, now);
    for (const { id: credentialId } of credentials)
      await revokeCredential(log, { applicationId, credentialId }, context);
    secrets[applicationId] = (await issueCredential(log, { applicationId }, context)).clientSecret;
    writeCredentials(file, { ...savedCredentials, ...secrets });
  }
  return secrets;
}

/**
 * Returns the credential of an auditor with access to all clinics. If the file does not contain a valid credential,
 * registers a new auditor.
 */
export function ensureAuditorCredential(log: EventLog, file: string, now: number): Promise<string> {
  return ensureCredential(file, "auditor", "aud", {
    load: async (id) => (await loadAggregate(log, auditorAggregate, id)).state,
    register: async (auditorId) => {
      const input = { auditorId, name: "Demo auditor", clinicIds: null, expiresAt: null };
      return (await registerAuditor(log, input, createOperatorContext(DEMO_OPERATOR, now))).credential;
    },
  });
}

/** Returns the credential of a system that may run all commands about clinics, as {@link ensureAuditorCredential}. */
export function ensureOperatorCredential(log: EventLog, file: string, now: number): Promise<string> {
  return ensureCredential(file, "operator", OPERATOR_PREFIX, {
    load: async (id) => (await loadAggregate(log, operatorAggregate, id)).state,
    register: async (operatorId) => {
      const input = { operatorId, name: "Demo desk", clinicIds: null, commands: null, expiresAt: null };
      return (await registerOperator(log, input, createOperatorContext(DEMO_OPERATOR, now))).credential;
    },
  });
}

async function ensureCredential(
  file: string,
  key: string,
  prefix: string,
  owner: {
    load(id: string): Promise<{ secretHash: string; revoked: boolean } | undefined>;
    register(id: string): Promise<string>;
  },
): Promise<string> {
  const savedCredentials = readCredentials(file);
  const savedCredential = savedCredentials[key];
  const parsedCredential = savedCredential === undefined ? undefined : parseCredential(prefix, savedCredential);
  const state = parsedCredential && (await owner.load(parsedCredential.ownerId));
  if (savedCredential && state?.secretHash === parsedCredential?.secretHash && state?.revoked === false)
    return savedCredential;
  const credential = await owner.register(randomUUID());
  writeCredentials(file, { ...savedCredentials, [key]: credential });
  return credential;
}

/** Returns an empty record if the file is missing or damaged. */
function readCredentials(file: string): Record<string, string> {
  if (!fs.existsSync(file)) return {};
  try {
    return credentialsSchema.parse(JSON.parse(fs.readFileSync(file, "utf8")));
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof z.ZodError) return {};
    throw error;
  }
}

function writeCredentials(file: string, credentials: Record<string, string>): void {
  replaceFile(file, `${JSON.stringify(credentials, null, 2)}\n`);
}

const SESSION_LIFETIME_SECONDS = 7 * 86_400;

/**
 * Returns the Cookie header of a signed-in portal user. The session is valid for seven days. The package
 * `@supabase/ssr` defines the format of the cookie: `base64-`, followed by the session's JSON as base64url.
 *
 * @param now milliseconds since 1970
 */
export async function createSessionCookie(
  user: { id: string; email: string },
  portalSettings: { jwtSecret: string; jwtIssuer: string; cookieName: string },
  now: number,
): Promise<string> {
  const issuedAtSeconds = Math.floor(now / 1000);
  const expiresAtSeconds = issuedAtSeconds + SESSION_LIFETIME_SECONDS;
  const accessToken = await new SignJWT({ role: "authenticated", email: user.email })
    .setProtectedHeader({ alg: "HS256", typ: "JWT" })
    .setIssuer(portalSettings.jwtIssuer)
    .setAudience("authenticated")
    .setSubject(user.id)
    .setIssuedAt(issuedAtSeconds)
    .setExpirationTime(expiresAtSeconds)
    .sign(new TextEncoder().encode(portalSettings.jwtSecret));
  const session = {
    access_token: accessToken,
    token_type: "bearer",
    expires_in: SESSION_LIFETIME_SECONDS,
    expires_at: expiresAtSeconds,
    refresh_token: "local-demo-sessions-are-not-refreshed",
    user: { id: user.id, aud: "authenticated", role: "authenticated", email: user.email },
  };
  const cookieValue = Buffer.from(JSON.stringify(session)).toString("base64url");
  return `${portalSettings.cookieName}=base64-${cookieValue}`;
}
