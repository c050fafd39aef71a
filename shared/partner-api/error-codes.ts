export const partnerErrors = {
  not_found: "The path does not exist, for example because an id contains an encoded slash.",
  invalid_json: "The body is not valid JSON in UTF-8, or an object in it has the same name twice.",
  body_too_large: "The body is larger than 64 KiB, or has more than 1,000 values.",
  unsupported_media_type: "The operation does not support the content type or charset, or the body is compressed.",
  validation_failed: "The request is not valid. `details` lists all problems.",
  invalid_request:
    "A parameter is missing, repeated or has the wrong type, or the request sends credentials in several ways.",
  invalid_client: "The credentials are missing, wrong or revoked, or belong to the other environment.",
  unsupported_grant_type: "The grant type is not `client_credentials`.",
  invalid_scope: "The application has none of the requested scopes.",
  missing_token: "The request has no Bearer token.",
  invalid_token:
    "The token is malformed or expired, belongs to the other environment, or its credential is revoked. Request a new token.",
  insufficient_scope: "The token, the application or the installation lacks the required scope.",
  clinic_header_invalid: "The clinic header is missing, repeated or not a UUID.",
  installation_denied: "The clinic has not approved the application, or has withdrawn its approval.",
  branch_denied:
    "The branch header is not a UUID, or names a branch that the clinic does not have or the installation does not cover.",
  sandbox_only: "The operation is available only in the sandbox environment.",
  clinic_not_operational: "The clinic is suspended or closed.",
  rate_limit_exceeded: "Too many requests. Wait the number of seconds in `Retry-After`.",
  rate_limit_unavailable: "The service could not count the request in time. Nothing was changed; try again.",
  appointment_not_found: "The clinic has no appointment with this id at a branch that the installation covers.",
  insufficient_consent: "The consent of the animal's owner does not cover new appointments.",
  link_code_invalid: "The code is wrong, used or expired, or belongs to another application or clinic.",
  animal_link_not_found: "The application has no link with this id at this clinic, or the link has ended.",
  fixture_appointment: "The appointment is part of the sandbox's fixture. Create an appointment of your own.",
  too_many_changes: "The appointment has 500 events, so it cannot be moved again. Its status can still change.",
  illegal_transition: "The appointment's status does not permit the change.",
  invalid_cursor: "The cursor does not come from a response of this API.",
  unknown_cursor:
    "The service does not have the event of the cursor, or the cursor belongs to another clinic. Read the appointments again, and continue from a new cursor.",
  too_many_waiting_requests: "Too many requests of the application wait for events. Wait for fewer clinics at a time.",
  invalid_destination: "The URL is missing, malformed or too long.",
  unsafe_destination:
    "Webhooks cannot be sent to the URL. `details` contains the reason, such as a port or an address that is not allowed.",
  destination_not_approved: "The operator has not approved the URL's origin for production.",
  webhook_endpoint_limit_reached:
    "The application has 50 webhook endpoints at this clinic, or 50 of its own. Revoke one first.",
  webhook_endpoint_not_found: "The application has no webhook endpoint with this id at this clinic, or of its own.",
  webhook_delivery_not_found:
    "The endpoint has no delivery with this id, the installation does not cover its branch, or it was deleted.",
  webhook_replay_not_found: "The endpoint has no replay with this id.",
  webhook_endpoint_revoked: "The webhook endpoint is revoked.",
  webhook_endpoint_disabled: "The webhook endpoint is disabled. Enable it first.",
  webhook_endpoint_disabled_by_operator:
    "The operator disabled the webhook endpoint. Only the operator can enable it again.",
  concurrent_rotation: "Another request changed the endpoint at the same time. This request did not rotate the secret.",
  delivery_not_replayable:
    "The delivery cannot be replayed. Only a failed or skipped delivery of an active endpoint can be replayed.",
  object_deleted: "The operator has deleted the object permanently, so it cannot be changed.",
  idempotency_conflict: "The idempotency key was already used for a different request.",
  event_log_unavailable:
    "The service cannot reach its event log at the moment. The outcome of a change is unknown; you may repeat the request.",
  concurrent_changes: "Too many concurrent changes of the same resource. Nothing was changed; try again.",
  invalid_log_position: "The log position does not come from a response of this API.",
  read_model_behind: "The change at this log position is not readable yet. Try again.",
  data_source_unavailable: "The service cannot reach its database at the moment. Nothing was changed; try again.",
  token_keys_unavailable: "The service cannot verify tokens at the moment.",
  internal_error: "An unexpected error occurred.",
} as const;

export type PartnerErrorCode = keyof typeof partnerErrors;

export type PartnerRefusals = Readonly<Partial<Record<PartnerErrorCode, number>>>;
