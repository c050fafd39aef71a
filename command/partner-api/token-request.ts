import type Koa from "koa";
import type { ErrorDetail } from "../../shared/domain/domain-error.ts";
import { type Environment, uuid } from "../../shared/domain/events/fields.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { listHeaderValues } from "../../shared/http/request.ts";
import {
  decodeFormText,
  type FormFields,
  hasFormBody,
  parseFormBody,
  parseJsonBody,
} from "../../shared/http/request-body.ts";
import { tokenRequest } from "../../shared/partner-api/request-bodies.ts";
import { partnerWrites } from "../../shared/partner-api/writes.ts";
import { decodeUtf8 } from "../../shared/runtime/decode-utf8.ts";

const { refusals: jsonStatuses, formRefusals: formStatuses } = partnerWrites.exchangeToken;

/** Error codes of RFC 6749, section 5.2. */
type TokenErrorCode = keyof typeof jsonStatuses;

/** Challenge for clients that tried to authenticate with the Authorization header. */
const BASIC_CHALLENGE = 'Basic realm="token", charset="UTF-8"';

/** Creates an error of the token operation, with the status for JSON requests. */
export function createTokenError(code: TokenErrorCode, details?: ErrorDetail[]): ApiError {
  return new ApiError(jsonStatuses[code], code, details && { details });
}

/**
 * Changes the errors of form requests to the statuses that RFC 6749 defines. If the client used the Authorization
 * header, a 401 response also has the challenge of the Basic scheme.
 */
export function applyFormStatuses(): Koa.Middleware {
  return async (ctx, next) => {
    try {
      await next();
    } catch (error) {
      if (!(error instanceof ApiError) || !hasFormBody(ctx) || !isTokenErrorCode(error.code)) throw error;
      const status = formStatuses[error.code];
      const isChallenged = status === 401 && ctx.req.headers.authorization !== undefined;
      throw new ApiError(status, error.code, {
        ...(error.details && { details: error.details }),
        headers: isChallenged ? { "WWW-Authenticate": BASIC_CHALLENGE } : {},
        cause: error,
      });
    }
  };
}

function isTokenErrorCode(code: string): code is TokenErrorCode {
  return Object.hasOwn(formStatuses, code);
}

export interface TokenRequest {
  /** Undefined if the client id is not a UUID, because no application can have such an id. */
  clientId: string | undefined;
  clientSecret: string;
  environment: Environment;
  scope: string | undefined;
}

interface ClientCredentials {
  clientId: string;
  clientSecret: string;
}

/** Parses the body of a token request: a form as in RFC 6749, or JSON. */
export function parseTokenBody(): Koa.Middleware {
  const [parseForm, parseJson] = [parseFormBody(), parseJsonBody()];
  return (ctx, next) => (hasFormBody(ctx) ? parseForm : parseJson)(ctx, next);
}

/**
 * Reads a token request whose body {@link parseTokenBody} has parsed.
 *
 * @throws {ApiError} `invalid_request`, `invalid_client` or `unsupported_grant_type`
 */
export function readTokenRequest(ctx: Koa.Context, environment: Environment): TokenRequest {
  const { body } = ctx.request;
  if (!hasFormBody(ctx)) return readJson(body);
  return readForm(body as FormFields, listHeaderValues(ctx.req, "authorization"), environment);
}

/** Reads a JSON request. The Authorization header is ignored. */
function readJson(body: unknown): TokenRequest {
  const { success, data } = tokenRequest.safeParse(body);
  if (!success) throw createTokenError("invalid_request");
  if (data.grant_type !== "client_credentials") throw createTokenError("unsupported_grant_type");
  return {
    ...toTokenCredentials({ clientId: data.client_id, clientSecret: data.client_secret }),
    environment: data.environment,
    scope: toRequestedScope(data.scope),
  };
}

/** Reads a form. The credentials are either in the form or in the Authorization header. */
function readForm(fields: FormFields, authHeaders: readonly string[], environment: Environment): TokenRequest {
  const form = readParameters(fields);
  if (form.grant_type === undefined) throw createParameterError("grant_type", "is required");
  if (form.grant_type !== "client_credentials") throw createTokenError("unsupported_grant_type");
  if ((form.environment ?? environment) !== environment)
    throw createParameterError("environment", `must be ${environment}, as in the URL`);
  const credentials = readClientCredentials(form, authHeaders);
  return { ...toTokenCredentials(credentials), environment, scope: toRequestedScope(form.scope) };
}

type FormParameters = Partial<Record<keyof typeof tokenRequest.shape, string>>;

/** Reads the known parameters. Ignores unknown parameters, as RFC 6749, section 3.2 requires. */
function readParameters(fields: FormFields): FormParameters {
  const parameters: FormParameters = {};
  for (const name of tokenRequest.keyof().options) {
    const [value, ...otherValues] = fields.filter((field) => field[0] === name).map((field) => field[1]);
    if (otherValues.length > 0) throw createParameterError(name, "must not be repeated");
    if (value) parameters[name] = value; // a parameter without a value counts as omitted (RFC 6749, section 3.2)
  }
  return parameters;
}

/**
 * Reads the credentials of a form request.
 *
 * @throws {ApiError} `invalid_request` if the request authenticates the client in several ways; `invalid_client` if the
 *   request has no credentials, or if its Authorization header is malformed or has another scheme than Basic
 */
function readClientCredentials(form: FormParameters, authHeaders: readonly string[]): ClientCredentials {
  const { client_id: clientId, client_secret: clientSecret } = form;
  const [authHeader, ...otherAuthHeaders] = authHeaders;
  if (otherAuthHeaders.length > 0) throw createParameterError("Authorization", "must not be repeated");
  if (authHeader === undefined) {
    if (clientSecret === undefined) throw createTokenError("invalid_client");
    if (clientId === undefined) throw createParameterError("client_id", "is required");
    return { clientId, clientSecret };
  }
  if (clientSecret !== undefined)
    throw createParameterError("client_secret", "must be absent if the request has an Authorization header");
  const credentials = parseBasicCredentials(authHeader);
  if (!credentials) throw createTokenError("invalid_client");
  if (clientId !== undefined && uuid.safeParse(clientId).data !== uuid.safeParse(credentials.clientId).data)
    throw createParameterError("client_id", "must match the Authorization header");
  return credentials;
}

function createParameterError(path: string, message: string): ApiError {
  return createTokenError("invalid_request", [{ path, message }]);
}

function toTokenCredentials({ clientId, clientSecret }: ClientCredentials) {
  return { clientId: uuid.safeParse(clientId).data, clientSecret };
}

/** Returns undefined for an empty scope, which counts as omitted (RFC 6749, section 3.2). */
function toRequestedScope(scope: string | undefined): string | undefined {
  return scope?.trim() ? scope : undefined;
}

/**
 * Parses an Authorization header with the scheme Basic (RFC 7617). User name and password are form-encoded, as RFC
 * 6749, section 2.3.1 requires. Ids and secrets contain no characters that encoding changes, so clients that omit this
 * encoding send the same credentials.
 *
 * @returns undefined if the header has another scheme or is malformed
 */
function parseBasicCredentials(authHeader: string): ClientCredentials | undefined {
  const base64 = /^Basic +([A-Za-z0-9+/]+={0,2})$/i.exec(authHeader)?.[1];
  const [encodedId, ...secretParts] = (base64 && decodeUtf8(Buffer.from(base64, "base64")))?.split(":") ?? [];
  if (encodedId === undefined || secretParts.length === 0) return undefined;
  const [clientId, clientSecret] = [decodeFormText(encodedId), decodeFormText(secretParts.join(":"))];
  return clientId === undefined || clientSecret === undefined ? undefined : { clientId, clientSecret };
}
