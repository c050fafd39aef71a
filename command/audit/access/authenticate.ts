import { timingSafeEqual } from "node:crypto";
import { type Auditor, auditorAggregate } from "../../../shared/domain/audit/auditor.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { ApiError } from "../../../shared/http/api-error.ts";
import { load } from "../../handling/handle.ts";
import { readCredential } from "../../operations/auditor-operations.ts";

/** Compared for an unknown auditor, so that the response time does not reveal which auditors exist. */
const NO_HASH = "0".repeat(64);

/**
 * Returns the auditor whose credential a request carries. The event log is read for every request, so that a
 * revocation is effective from the next request. An unknown, wrong, revoked or expired credential costs one read and
 * one comparison and gets the same error.
 *
 * @param authorization value of the Authorization header
 * @param now milliseconds since 1970
 * @throws {ApiError} 401 `missing_token` or `invalid_token`
 * @throws {LogUnavailableError}
 */
export async function authenticate(
  log: EventLog,
  authorization: string | undefined,
  now: number,
): Promise<Auditor> {
  const text = /^Bearer +(\S+)$/i.exec(authorization ?? "")?.[1];
  if (text === undefined) throw refusal("missing_token");
  const given = readCredential(text);
  if (!given) throw refusal("invalid_token");
  const { state } = await load(log, auditorAggregate, given.auditorId);
  const kept = Buffer.from(state?.secretHash ?? NO_HASH, "hex");
  const matches = timingSafeEqual(Buffer.from(given.secretHash, "hex"), kept);
  const expired = typeof state?.expiresAt === "string" && Date.parse(state.expiresAt) <= now;
  if (!state || !matches || state.revoked || expired) throw refusal("invalid_token");
  return state;
}

function refusal(code: "missing_token" | "invalid_token"): ApiError {
  const challenge = code === "missing_token" ? "Bearer" : 'Bearer error="invalid_token"';
  return new ApiError(401, code, { headers: { "WWW-Authenticate": challenge } });
}
