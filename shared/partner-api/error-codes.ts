/** Every code that the partner API refuses a request with, and what it means to the caller. */
export const partnerErrors = {
  invalid_json: "The body is not JSON.",
  body_too_large: "The body is larger than 64 KiB.",
  unsupported_media_type: "The body is not sent as uncompressed JSON in UTF-8.",
  validation_failed: "The request is not valid; `details` names each thing wrong.",
  invalid_request: "A parameter is missing or of the wrong type.",
  invalid_client: "The credentials are wrong, revoked, or of the other environment.",
  unsupported_grant_type: "The grant type is not `client_credentials`.",
  invalid_scope: "None of the scopes asked for is granted to the application.",
  missing_token: "There is no Bearer token.",
  invalid_token: "The token is malformed, expired, of the other environment, or its credential is revoked.",
  insufficient_scope: "The token, the application or the installation lacks the scope.",
  clinic_header_invalid: "The clinic header is missing or is not one UUID.",
  installation_denied: "The clinic has not approved the application, or no longer does.",
  branch_denied: "The branch header names no branch of the installation.",
  sandbox_only: "There is no sandbox in production.",
  clinic_not_operational: "The clinic is suspended or closed.",
  rate_limit_exceeded: "Too many requests; wait as `Retry-After` says.",
  rate_limit_unavailable: "The request could not be counted in time; nothing was done.",
  invalid_cursor: "The cursor is not one that an answer carried.",
  invalid_destination: "The URL is malformed or of a kind that webhooks do not go to.",
  unsafe_destination: "The URL leads to an address that is not public.",
  destination_not_approved: "The operator has not approved the URL's origin.",
  webhook_endpoint_limit_reached:
    "The application has 50 webhook endpoints at this clinic; revoke one first.",
  webhook_endpoint_not_found: "The application has no such webhook endpoint at this clinic.",
  webhook_endpoint_revoked: "The webhook endpoint is revoked.",
  webhook_endpoint_disabled: "The webhook endpoint is disabled.",
  concurrent_rotation: "The endpoint was changed at the same time; nothing was rotated.",
  delivery_not_replayable: "Only a failed or skipped delivery of an active endpoint can be replayed.",
  idempotency_conflict: "The idempotency key was used for another request.",
  event_log_unavailable: "Nothing can be recorded for now.",
  too_many_changes: "Others changed the same thing again and again; nothing was recorded.",
  invalid_log_position: "The log position is not one that an answer carried.",
  read_model_behind: "What the log position stands for cannot be read yet.",
  data_source_unavailable: "Data cannot be read for now.",
  token_keys_unavailable: "Tokens cannot be verified for now.",
  internal_error: "Something unforeseen went wrong.",
} as const;

export type PartnerErrorCode = keyof typeof partnerErrors;

/** Codes, each with the status that carries it. */
export type PartnerRefusals = Readonly<Partial<Record<PartnerErrorCode, number>>>;
