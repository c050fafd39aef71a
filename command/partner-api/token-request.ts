import { z } from "zod";
import { type Environment, uuid } from "../../shared/domain/events/fields.ts";
import { type Scope, scope } from "../../shared/domain/events/partner.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { tokenRequest } from "../../shared/partner-api/request-bodies.ts";

/** A TokenRequest that is well formed; whether it is true is another matter. */
export interface TokenRequest {
  /** Undefined for a text that is no id of ours. */
  clientId: string | undefined;
  clientSecret: string;
  environment: Environment;
  /** Undefined: the whole grant. */
  scope: string | undefined;
}

/** How the token operation says no: always 401, with the codes of RFC 6749, section 5.2. */
export function tokenRefusal(
  code: "invalid_request" | "invalid_client" | "unsupported_grant_type" | "invalid_scope",
): ApiError {
  return new ApiError(401, code);
}

/** @throws {ApiError} 401 `invalid_request` or `unsupported_grant_type` */
export function readTokenRequest(body: unknown): TokenRequest {
  const { success, data } = tokenRequest.safeParse(body);
  if (!success) throw tokenRefusal("invalid_request");
  if (data.grant_type !== "client_credentials") throw tokenRefusal("unsupported_grant_type");
  return {
    clientId: uuid.safeParse(data.client_id).data,
    clientSecret: data.client_secret,
    environment: data.environment,
    // A parameter without a value counts as left out (RFC 6749, section 3.2).
    scope: data.scope?.trim() ? data.scope : undefined,
  };
}

/**
 * The scopes that a token gets: those asked for, cut down to the grant; the whole grant where none is asked for.
 *
 * @throws {ApiError} 401 `invalid_scope` for a name that no scope has, and where none is left
 */
export function grantedScopes(asked: string | undefined, grant: readonly Scope[]): Scope[] {
  if (asked === undefined) return [...grant];
  const names = z.array(scope).safeParse(asked.trim().split(/ +/));
  const granted = grant.filter((name) => names.data?.includes(name));
  if (granted.length === 0) throw tokenRefusal("invalid_scope");
  return granted;
}
