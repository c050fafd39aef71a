/**
 * Error codes of the partner API, grouped by how partners handle them. Each text states the meaning and what to do. The
 * operations declare the HTTP statuses.
 */
export const errorGroups = {
  retry: {
    request_timeout: "Send the headers within 10 seconds and the complete request within 20 seconds.",
    concurrent_rotation:
      "Another request changed the endpoint at the same time. This request did not rotate the secret. Check who rotates secrets, then try again.",
    rate_limit_exceeded: "Too many requests. Wait for `Retry-After` and send fewer requests.",
    too_many_waiting_requests:
      "Too many requests of the application wait for events. At most 200 requests of your application wait at a time in a process. Wait for the events of all clinics with one request.",
    internal_error:
      "An unexpected error occurred. Try again. If the error persists, contact the operator with the correlation id.",
    data_source_unavailable: "The service cannot reach its database at the moment. Nothing was changed. Try again.",
    event_log_unavailable:
      "The service cannot reach its event log at the moment. The outcome of a change is unknown. Try again, with the same idempotency key if the request has one.",
    rate_limit_unavailable: "The service could not count the request in time. Nothing was changed. Try again.",
    read_model_behind:
      "The change at this log position is not readable yet. Try again, or omit the log position if an older state is sufficient.",
    token_keys_unavailable: "The service cannot verify tokens at the moment. Try again.",
    concurrent_changes:
      "Too many concurrent changes of the same object. Nothing was changed. Try again, with fewer concurrent changes of the same object.",
  },
  token: {
    invalid_token:
      "The token is malformed or expired, belongs to the other environment, or its credential is revoked. Request a new token and repeat the request once. If the error persists, check the environment.",
    missing_token: "The request has no Bearer token. Send the header `Authorization: Bearer <token>`.",
  },
  access: {
    invalid_client:
      "The credentials are missing, wrong or revoked, or belong to the other environment. Check client id, client secret and environment. If the secret was revoked, ask the operator for a new one.",
    invalid_scope:
      "The application has none of the requested scopes. Request scopes that your application has, or omit the parameter.",
    installation_denied:
      "The clinic has not approved the application, or has withdrawn its approval. Stop requests for this clinic.",
    insufficient_scope:
      "The token, the application or the installation lacks the required scope. Compare the scopes of token, application and installation. `GET /clinic/context` returns those of the installation.",
    branch_denied:
      "The branch header is not a UUID, or names a branch that the clinic does not have or the installation does not cover. Use a branch that `GET /clinic/context` lists.",
    clinic_header_invalid:
      "The clinic header is missing, repeated or not a UUID. Send one clinic header with the clinic's id.",
    entitlement_required:
      "The clinic's plan does not include scheduling. Create the appointment without a resource, and the clinic places it.",
    clinic_not_operational:
      "The clinic is suspended or closed. Stop writes for this clinic until the operator confirms that it is active.",
    sandbox_only: "The operation is available only in the sandbox environment. Use the operation only in the sandbox.",
    destination_not_approved:
      "The operator has not approved the URL's origin for production. Ask the operator to approve the origin of the URL.",
    webhook_endpoint_disabled_by_operator:
      "The operator disabled the webhook endpoint. Only the operator can enable it again. Ask the operator why the endpoint is disabled.",
  },
  request: {
    invalid_json:
      "The body is not valid JSON in UTF-8, or an object in it has the same name twice. Send a JSON object in UTF-8 without repeated members.",
    invalid_request:
      "A parameter is missing, repeated or has the wrong type, or the request sends credentials in several ways. Correct the parameters of the token request. A form may have credentials in one place only.",
    unsupported_grant_type: "The grant type is not `client_credentials`. Use `client_credentials`.",
    validation_failed:
      "The request is not valid. `details` lists all problems. Correct the fields that `details` lists.",
    invalid_cursor: "The cursor does not come from a response of this API. Start the list again without a cursor.",
    unknown_cursor:
      "The service does not have the event of the cursor, or the cursor belongs to another clinic. Read the appointments again, and continue from a new cursor.",
    invalid_log_position:
      "The log position does not come from a response of this API. Send the position exactly as you received it.",
    invalid_destination: "The URL is missing, malformed or too long. Use an absolute HTTPS URL.",
    unsafe_destination:
      "Webhooks cannot be sent to the URL. `details` contains the reason, such as a port or an address that is not allowed. Use a public address and a permitted port.",
    malformed_request: "The request is not valid HTTP. Use a standard HTTP client.",
    appointment_not_found:
      "The clinic has no appointment with this id at a branch that the installation covers. Check the appointment's id and the installation's branches.",
    not_found:
      "The path does not exist, for example because an id contains an encoded slash. Check the path. Paths have no trailing slash.",
    webhook_delivery_not_found:
      "The endpoint has no delivery with this id, the installation does not cover its branch, or it was deleted. Check the ids of the endpoint and the delivery. Deliveries are deleted after 30 days.",
    webhook_replay_not_found: "The endpoint has no replay with this id. Check the ids of the endpoint and the replay.",
    webhook_endpoint_not_found:
      "The application has no webhook endpoint with this id at this clinic, or of its own. Check the endpoint's id, the clinic and the environment.",
    animal_link_not_found:
      "The application has no link with this id at this clinic, or the link has ended. Ask the owner for a new code.",
    method_not_allowed: "Use a method that the header `Allow` lists.",
    fixture_appointment:
      "The appointment is part of the sandbox's fixture. Create an appointment in the sandbox, and change that one.",
    illegal_transition: "The appointment's status does not permit the change. Read the appointment.",
    too_many_changes:
      "The appointment has 500 events, so it cannot be moved again. Its status can still change. Create another appointment.",
    delivery_not_replayable:
      "The delivery cannot be replayed. Check the delivery's status. Only failed and skipped deliveries of an active endpoint can be replayed, and only one request for a delivery can wait.",
    idempotency_conflict:
      "The idempotency key was already used for a different request. Use a new key for a new booking. If you wanted to repeat a request, send exactly the same fields.",
    object_deleted:
      "The operator has deleted the object permanently, so it cannot be changed. Use a new idempotency key, or contact the operator.",
    webhook_endpoint_disabled: "The webhook endpoint is disabled. Enable the endpoint first.",
    webhook_endpoint_limit_reached:
      "The application has 50 webhook endpoints at this clinic, or 50 of its own. Revoke an endpoint that you no longer need.",
    webhook_endpoint_revoked: "The webhook endpoint is revoked. Register a new endpoint.",
    operation_retired: "The operation no longer exists. The changelog names its replacement.",
    body_too_large:
      "The body is larger than 64 KiB, or has more than 1,000 values. Send at most 64 KiB and 1,000 values.",
    unsupported_media_type:
      "The operation does not support the content type or charset, or the body is compressed. Send `Content-Type: application/json` without compression.",
    slot_taken:
      "No requested resource has a free place at that time. Nothing was changed. Read the free times again, and let the user choose another one. The same key can be used again.",
    insufficient_consent:
      "The consent of the animal's owner does not cover new appointments. Ask the owner for a code that also covers new appointments.",
    link_code_invalid:
      "The code is wrong, used or expired, or belongs to another application or clinic. Ask the owner to compare the code. If it has expired, the clinic creates a new one.",
    headers_too_large: "Send less than 32 KiB of headers.",
  },
} as const satisfies Record<string, Record<string, string>>;

type Groups = typeof errorGroups;

export type PartnerErrorCode = { [Group in keyof Groups]: keyof Groups[Group] }[keyof Groups];

export const partnerErrors: Readonly<Record<PartnerErrorCode, string>> = Object.assign(
  {},
  ...Object.values(errorGroups),
);

export type PartnerRefusals = Readonly<Partial<Record<PartnerErrorCode, number>>>;

/** Statuses of errors that occur before a request reaches an operation. The operations do not list these errors. */
export const generalErrors = {
  malformed_request: 400,
  method_not_allowed: 405,
  request_timeout: 408,
  operation_retired: 410,
  headers_too_large: 431,
} as const satisfies PartnerRefusals;
