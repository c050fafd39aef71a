import { randomUUID } from "node:crypto";
import fs from "node:fs";
import { SignJWT } from "jose";
import { z } from "zod";
import { type CommandContext, loadAggregate } from "../../../command/handling/handle.ts";
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

/**
 * The credentials of the demo data. They are saved in a file, because the log contains only their hashes. A saved
 * credential is reused while it is valid. Otherwise, a new credential is issued and saved.
 */
export class DemoCredentials {
  readonly #log: EventLog;
  readonly #file: string;
  readonly #context: CommandContext;

  /** @param now milliseconds since 1970 */
  constructor(log: EventLog, file: string, now: number) {
    this.#log = log;
    this.#file = file;
    this.#context = createOperatorContext(DEMO_OPERATOR, now);
  }

  /** Returns a client secret of the application. If a new secret is needed, revokes all earlier secrets first. */
  async ensureClientSecret(applicationId: string): Promise<string> {
    const { state } = await loadAggregate(this.#log, applicationAggregate, applicationId);
    const credentials = state?.credentials ?? [];
    const isValid = (secret: string) => credentials.some(({ secretHash }) => secretHash === hashSecret(secret));
    return this.#ensure(applicationId, isValid, async () => {
      for (const { id: credentialId } of credentials)
        await revokeCredential(this.#log, { applicationId, credentialId }, this.#context);
      return (await issueCredential(this.#log, { applicationId }, this.#context)).clientSecret;
    });
  }

  /** Returns the credential of an auditor with access to all clinics. */
  ensureAuditor(): Promise<string> {
    const isValid = async (credential: string) => {
      const { ownerId = "", secretHash } = parseCredential("aud", credential) ?? {};
      const { state } = await loadAggregate(this.#log, auditorAggregate, ownerId);
      return state?.revoked === false && state.secretHash === secretHash;
    };
    return this.#ensure("auditor", isValid, async () => {
      const input = { auditorId: randomUUID(), name: "Demo auditor", clinicIds: null, expiresAt: null };
      return (await registerAuditor(this.#log, input, this.#context)).credential;
    });
  }

  /** Returns the credential of a system that may run all commands about clinics. */
  ensureOperator(): Promise<string> {
    const isValid = async (credential: string) => {
      const { ownerId = "", secretHash } = parseCredential(OPERATOR_PREFIX, credential) ?? {};
      const { state } = await loadAggregate(this.#log, operatorAggregate, ownerId);
      return state?.revoked === false && state.secretHash === secretHash;
    };
    return this.#ensure("operator", isValid, async () => {
      const input = { operatorId: randomUUID(), name: "Demo desk", clinicIds: null, commands: null, expiresAt: null };
      return (await registerOperator(this.#log, input, this.#context)).credential;
    });
  }

  async #ensure(
    key: string,
    isValid: (credential: string) => boolean | Promise<boolean>,
    issue: () => Promise<string>,
  ): Promise<string> {
    const savedCredentials = readCredentials(this.#file);
    const savedCredential = savedCredentials[key];
    if (savedCredential !== undefined && (await isValid(savedCredential))) return savedCredential;
    const credential = await issue();
    replaceFile(this.#file, `${JSON.stringify({ ...savedCredentials, [key]: credential }, null, 2)}\n`);
    return credential;
  }
}

/** Returns an empty record if the file is missing or damaged. */
function readCredentials(file: string): Record<string, string> {
  if (!fs.existsSync(file)) return {};
  try {
    return z.record(z.string(), z.string()).parse(JSON.parse(fs.readFileSync(file, "utf8")));
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof z.ZodError) return {};
    throw error;
  }
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
