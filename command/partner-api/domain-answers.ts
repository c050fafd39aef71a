import type Koa from "koa";
import { DomainError } from "../../shared/domain/domain-error.ts";
import { ApiError } from "../../shared/http/api-error.ts";

/**
 * Turns refusals of the domain into answers. A refusal that an operation does not list is none of its contract, and
 * stays an error of ours.
 *
 * @param statuses the HTTP status of each code
 */
export function domainAnswers<State>(statuses: Record<string, number>): Koa.Middleware<State> {
  return async (_, next) => {
    try {
      await next();
    } catch (error) {
      const status = error instanceof DomainError ? statuses[error.code] : undefined;
      throw status ? new ApiError(status, (error as DomainError).code, { cause: error }) : error;
    }
  };
}
