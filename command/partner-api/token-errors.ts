import type Koa from "koa";
import type { ErrorDetail } from "../../shared/domain/domain-error.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { hasFormBody } from "../../shared/http/request-body.ts";
import { partnerWrites } from "../../shared/partner-api/writes.ts";

const { refusals: jsonStatuses, form } = partnerWrites.exchangeToken;

/** Error codes of the token operation (RFC 6749, section 5.2). */
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
      const status = form.refusals[error.code];
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
  return Object.hasOwn(form.refusals, code);
}
