/** A problem with one field: its path (`branchId`, `header X-…`) and what is wrong. */
export interface ErrorDetail {
  path: string;
  message: string;
}

/** A domain rule that refuses a command. The code is stable, in snake_case, and may be shown to the caller. */
export class DomainError extends Error {
  override readonly name = "DomainError";
  readonly code: string;
  /** The fields that are wrong; undefined if the refusal is not about single fields. */
  readonly details: ErrorDetail[] | undefined;

  constructor(code: string, message: string, details?: ErrorDetail[]) {
    super(message);
    this.code = code;
    this.details = details;
  }
}
