import type Koa from "koa";
import type { z } from "zod";
import { DomainError, type ErrorDetail } from "../../shared/domain/domain-error.ts";
import { listIssues } from "../../shared/domain/validation/describe-issue.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { listHeaderValues } from "../../shared/http/request.ts";
import { idempotencyKey as idempotencyKeySchema } from "../../shared/partner-api/request-bodies.ts";

/** Converts domain errors to HTTP errors. A domain error whose code the operation does not list becomes a 500. */
export function mapDomainErrors<State>(statusByCode: Record<string, number>): Koa.Middleware<State> {
  return async (_, next) => {
    try {
      await next();
    } catch (error) {
      const status = error instanceof DomainError ? statusByCode[error.code] : undefined;
      if (!(error instanceof DomainError) || status === undefined) throw error;
      const { code, details } = error;
      throw new ApiError(status, code, { ...(details && { details }), cause: error });
    }
  };
}

/** Maximum number of details in a response, so that a body full of unknown fields does not cause a huge response. */
const MAX_ERROR_DETAILS = 20;

/** Converts zod issues to error details, with the path of each invalid or unknown field. */
export function toErrorDetails(error: z.ZodError): ErrorDetail[] {
  const details = listIssues(error).map(({ path, message }) => ({ path: path.join(".") || "body", message }));
  return details.slice(0, MAX_ERROR_DETAILS);
}

/** @throws {ApiError} 422 `validation_failed` with the problems of the body */
export function parseBody<Body>(ctx: Koa.ParameterizedContext, schema: z.ZodType<Body>): Body {
  const body = schema.safeParse(ctx.request.body);
  if (!body.success) throw new ApiError(422, "validation_failed", { details: toErrorDetails(body.error) });
  return body.data;
}

/**
 * Parses the body and the Idempotency-Key header of a request.
 *
 * @throws {ApiError} `validation_failed` with the given status and all problems of the header and the body
 */
export function parseIdempotentRequest<Body>(
  ctx: Koa.ParameterizedContext,
  schema: z.ZodType<Body>,
  status: 400 | 422,
): { body: Body; idempotencyKey: string } {
  const [headerValue, ...otherValues] = listHeaderValues(ctx.req, "idempotency-key");
  const key = idempotencyKeySchema.safeParse(headerValue);
  const body = schema.safeParse(ctx.request.body);
  const isKeyValid = key.success && otherValues.length === 0;
  if (isKeyValid && body.success) return { body: body.data, idempotencyKey: key.data };
  const message = "must be given once, with 8 to 128 printable ASCII characters";
  const keyDetails = isKeyValid ? [] : [{ path: "header Idempotency-Key", message }];
  const details = [...keyDetails, ...(body.success ? [] : toErrorDetails(body.error))];
  throw new ApiError(status, "validation_failed", { details });
}
