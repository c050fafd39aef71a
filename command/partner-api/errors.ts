import type Koa from "koa";
import type { z } from "zod";
import { DomainError, type ErrorDetail } from "../../shared/domain/domain-error.ts";
import { describeIssue } from "../../shared/domain/validation/describe-issue.ts";
import { ApiError } from "../../shared/http/api-error.ts";

/**
 * Turns refusals of the domain into answers. A refusal that an operation does not list is none of its contract, and
 * stays an error of ours.
 *
 * @param statuses the HTTP status of each code
 */
export function mapDomainErrors<State>(statuses: Record<string, number>): Koa.Middleware<State> {
  return async (_, next) => {
    try {
      await next();
    } catch (error) {
      const status = error instanceof DomainError ? statuses[error.code] : undefined;
      if (!(error instanceof DomainError) || status === undefined) throw error;
      const { code, details } = error;
      throw new ApiError(status, code, { ...(details && { details }), cause: error });
    }
  };
}

/** So many things wrong are told; a body of nothing but unknown fields has no more to say. */
const MAX_DETAILS = 20;

/** What zod found wrong, for the caller: each field by its path, unknown ones each by name. */
export function toErrorDetails(error: z.ZodError): ErrorDetail[] {
  const details = error.issues.flatMap((issue) => {
    if (issue.code !== "unrecognized_keys") {
      return [{ path: issue.path.join(".") || "body", message: describeIssue(issue) }];
    }
    return issue.keys.map((key) => ({
      path: [...issue.path, key].join("."),
      message: "is not a known field",
    }));
  });
  return details.slice(0, MAX_DETAILS);
}
