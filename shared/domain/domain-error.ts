/** A problem with one field: the field's path (`branchId`, `header X-…`) and a description of the problem. */
export interface ErrorDetail {
  path: string;
  message: string;
}

/** Thrown if a domain rule refuses a command. The code is stable, in snake_case, and may be shown to the caller. */
export class DomainError extends Error {
  override readonly name = "DomainError";
  readonly code: string;
  /** Problems by field; undefined if the rule does not concern individual fields. */
  readonly details: ErrorDetail[] | undefined;

  constructor(code: string, message: string, details?: ErrorDetail[]) {
    super(message);
    this.code = code;
    this.details = details;
  }
}
