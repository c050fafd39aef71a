import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import { createUnauthorizedError } from "../../shared/auth/access-token.ts";
import type { Aggregate, Decision } from "../../shared/domain/aggregate.ts";
import { clinicAggregate } from "../../shared/domain/clinic/clinic.ts";
import { DomainError } from "../../shared/domain/domain-error.ts";
import type { categories } from "../../shared/domain/events/catalog.ts";
import type { EventOf } from "../../shared/domain/events/category.ts";
import type { Instant } from "../../shared/domain/time/rfc3339.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { type CommandContext, handle, loadAggregate } from "../handling/handle.ts";

/** A credential from a request. Contains the hash of the secret instead of the secret. */
export interface Credential {
  ownerId: string;
  secretHash: string;
}

/** Dummy hash for unknown owners, so that the response time does not reveal which owners exist. */
const DUMMY_HASH = "0".repeat(64);

/**
 * Generates a credential, which is shown only once, and the hash that is stored instead. Format: the prefix, the owner's
 * id without hyphens, and a secret of 256 random bits, joined by `_`.
 */
export function generateCredential(prefix: string, ownerId: string): { credential: string; secretHash: string } {
  const secret = randomBytes(32).toString("base64url");
  return { credential: `${prefix}_${ownerId.replaceAll("-", "")}_${secret}`, secretHash: hashSecret(secret) };
}

/**
 * Creates an operation that registers the owner of a new credential, such as an auditor. Only the operation's result
 * contains the credential.
 *
 * @param decide receives the registration with the secret's hash, and the time in milliseconds since 1970
 * @returns the operation, which throws {@link DomainError} `clinic_not_found` if one of the owner's clinics does not
 *   exist
 */
export function defineRegistration<
  C extends (typeof categories)[number],
  State,
  Registration extends { secretHash: string; clinicIds: readonly string[] | null },
>(
  prefix: string,
  aggregate: Aggregate<C, State>,
  decide: (registration: Registration, now: number) => Decision<State, EventOf<C>>,
) {
  return async (log: EventLog, owner: Omit<Registration, "secretHash">, context: CommandContext) => {
    const registration = owner as Registration;
    for (const clinicId of registration.clinicIds ?? []) {
      const { state } = await loadAggregate(log, clinicAggregate, clinicId);
      if (!state) throw new DomainError("clinic_not_found", `clinic ${clinicId} does not exist`);
    }
    const id = aggregate.category.getStreamId({ type: "", data: registration });
    const { credential, secretHash } = generateCredential(prefix, id);
    const result = await handle(log, aggregate, id, decide({ ...registration, secretHash }, context.now), context);
    return { ...result, credential, secrets: { credential } };
  };
}

/** Parses a credential. Returns undefined if the text is not a well-formed credential with the prefix. */
export function parseCredential(prefix: string, text: string): Credential | undefined {
  const [, textPrefix, digits = "", secret = ""] = /^([a-z]+)_([0-9a-f]{32})_([\w-]{43})$/.exec(text) ?? [];
  if (textPrefix !== prefix) return undefined;
  const ownerId = digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
  return { ownerId, secretHash: hashSecret(secret) };
}

/**
 * Reads the credential of an Authorization header.
 *
 * @throws {ApiError} 401 `missing_token` or `invalid_token`
 */
export function readAuthorization(prefix: string, authorization: string): Credential {
  const token = /^Bearer +(\S+)$/i.exec(authorization)?.[1];
  if (token === undefined) throw createUnauthorizedError("missing_token");
  const credential = parseCredential(prefix, token);
  if (!credential) throw createUnauthorizedError("invalid_token");
  return credential;
}

/**
 * Returns the owner if the credential is valid. All other credentials cause the same error after the same comparison,
 * so that callers cannot find out which owners exist.
 *
 * @param now milliseconds since 1970
 * @throws {ApiError} 401 `invalid_token` if the credential is unknown, wrong, revoked or expired
 */
export function requireActive<Owner extends { secretHash: string; expiresAt: Instant | null; revoked: boolean }>(
  { secretHash }: Credential,
  owner: Owner | undefined,
  now: number,
): Owner {
  const storedHash = Buffer.from(owner?.secretHash ?? DUMMY_HASH, "hex");
  const isMatch = timingSafeEqual(Buffer.from(secretHash, "hex"), storedHash);
  const isExpired = typeof owner?.expiresAt === "string" && Date.parse(owner.expiresAt) <= now;
  if (!owner || !isMatch || owner.revoked || isExpired) throw createUnauthorizedError("invalid_token");
  return owner;
}

/** Hashes a secret for storage, with SHA-256 (hex). 256 random bits need no salt and no slow hash. */
export function hashSecret(secret: string): string {
  return hash("sha256", secret);
}
