import type { ErrorDetail } from "../domain/domain-error.ts";

/** An answer of status 400 or above that the caller is told about. The code is stable, in snake_case. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;
  readonly code: string;
  readonly details: ErrorDetail[] | undefined;
  readonly headers: Record<string, string>;

  constructor(
    status: number,
    code: string,
    more: { details?: ErrorDetail[]; headers?: Record<string, string>; cause?: unknown } = {},
  ) {
    super(`${status} ${code}`, { cause: more.cause });
    this.status = status;
    this.code = code;
    this.details = more.details;
    this.headers = more.headers ?? {};
  }
}

/**
 * Something that the answer needs is out of reach for now.
 *
 * @param code what the caller is told, for instance `data_source_unavailable`
 * @param retryAfter seconds after which to try again
 */
export function unavailable(code: string, cause: unknown, retryAfter = 2): ApiError {
  return new ApiError(503, code, { headers: { "Retry-After": String(retryAfter) }, cause });
}
