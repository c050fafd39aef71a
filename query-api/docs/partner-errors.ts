import type { PartnerErrorCode, PartnerRefusals } from "../../shared/partner-api/error-codes.ts";
import type { PartnerOperation } from "../../shared/partner-api/operations.ts";
import type { PartnerWrite } from "../../shared/partner-api/writes.ts";
import type { PartnerRead } from "../partner/read.ts";
import type { ErrorStatuses } from "./errors.ts";

/** Returns all error codes that a read operation can return, with their HTTP status. */
export function listReadErrors(operation: PartnerOperation, partnerRead: PartnerRead): PartnerRefusals {
  return {
    ...listAccessErrors(operation),
    invalid_log_position: 400,
    ...(partnerRead.isPaged && { invalid_cursor: 400 }),
    ...partnerRead.refusals,
    internal_error: 500,
    data_source_unavailable: 503,
    token_keys_unavailable: 503,
    read_model_behind: 503,
  };
}

/** Returns all error codes that a write operation can return, with their HTTP statuses. */
export function listWriteErrors(
  operation: PartnerOperation,
  partnerWrite: PartnerWrite,
): ErrorStatuses<PartnerErrorCode> {
  return {
    ...listAccessErrors(operation),
    ...(partnerWrite.request && { invalid_json: 400, body_too_large: 413, unsupported_media_type: 415 }),
    ...partnerWrite.refusals,
    ...(partnerWrite.form && mergeStatuses(partnerWrite.refusals, partnerWrite.form.refusals)),
    internal_error: 500,
    event_log_unavailable: 503,
  };
}

/** Returns the statuses of each error code of a form request, and of the same code in a JSON request. */
function mergeStatuses(refusals: PartnerRefusals, formRefusals: PartnerRefusals): ErrorStatuses<PartnerErrorCode> {
  const formStatuses = Object.entries(formRefusals) as [PartnerErrorCode, number][];
  return Object.fromEntries(
    formStatuses.map(([code, status]) => [code, [...new Set([refusals[code] ?? status, status])]]),
  );
}

/** Returns the error codes of the access check and the rate limit, with their HTTP status. */
function listAccessErrors({ scope, requiresClinic, requiresSandbox }: PartnerOperation): PartnerRefusals {
  return {
    ...(scope && { missing_token: 401, invalid_token: 401, insufficient_scope: 403 }),
    ...(requiresClinic && { clinic_header_invalid: 403, installation_denied: 403, branch_denied: 403 }),
    ...(requiresSandbox && { sandbox_only: 403, installation_denied: 403 }),
    rate_limit_exceeded: 429,
    rate_limit_unavailable: 503,
  };
}
