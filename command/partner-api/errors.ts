import type Koa from "koa";
import type { z } from "zod";
import { DomainError, type ErrorDetail } from "../../shared/domain/domain-error.ts";
import { describeIssue } from "../../shared/domain/validation/describe-issue.ts";
import { ApiError } from "../../shared/http/api-error.ts";

/**
 * Converts domain errors to HTTP errors. A domain error whose code the operation does not list becomes a 500.
 *
 * @param statusByCode HTTP status by error code
 */
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
  const details = error.issues.flatMap((issue) => {
    if (issue.code !== "unrecognized_keys") {
      return [{ path: issue.path.join(".") || "body", message: describeIssue(issue) }];
    }
    return issue.keys.map((key) => ({ path: [...issue.path, key].join("."), message: "is not a known field" }));
  });
  return details.slice(0, MAX_ERROR_DETAILS);
}
