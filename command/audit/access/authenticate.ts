import { timingSafeEqual } from "node:crypto";
import { createUnauthorizedError } from "../../../shared/auth/access-token.ts";
import { type Auditor, auditorAggregate } from "../../../shared/domain/audit/auditor.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { loadAggregate } from "../../handling/handle.ts";
import { type Credential, readCredential } from "../../operations/auditor-operations.ts";

/** Dummy hash for unknown auditors, so that the response time does not reveal which auditors exist. */
const DUMMY_HASH = "0".repeat(64);

/**
 * Reads the credential of an Authorization header.
 *
 * @throws {ApiError} 401 `missing_token` or `invalid_token`
 */
export function readAuthorization(authorization: string): Credential {
  const token = /^Bearer +(\S+)$/i.exec(authorization)?.[1];
  if (token === undefined) throw createUnauthorizedError("missing_token");
  const credential = readCredential(token);
  if (!credential) throw createUnauthorizedError("invalid_token");
  return credential;
}

/**
 * Returns the auditor with the credential. Each request reads the event log, so a revocation takes effect with the next
 * request. An unknown, wrong, revoked or expired credential causes the same error after the same work: one read of the
 * log and one comparison.
 *
 * @param now milliseconds since 1970
 * @throws {ApiError} 401 `invalid_token`
 * @throws {LogUnavailableError} if the event log cannot be read
 */
export async function authenticate(log: EventLog, credential: Credential, now: number): Promise<Auditor> {
  const { state } = await loadAggregate(log, auditorAggregate, credential.auditorId);
  const storedHash = Buffer.from(state?.secretHash ?? DUMMY_HASH, "hex");
  const isMatch = timingSafeEqual(Buffer.from(credential.secretHash, "hex"), storedHash);
  const isExpired = typeof state?.expiresAt === "string" && Date.parse(state.expiresAt) <= now;
  if (!state || !isMatch || state.revoked || isExpired) throw createUnauthorizedError("invalid_token");
  return state;
}
