/** An error response of the service, or a failed request. The message says what to do. */
export class ApiError extends Error {
  /**
   * @param {number} status status of the response; 0 if the service did not respond
   * @param {{ error?: string, correlationId?: string, docUrl?: string, details?: object[] }} body
   * @param {number} retrySeconds value of `Retry-After`; 0 if absent
   */
  constructor(status, body, retrySeconds = 0) {
    super(describeError(status, body, retrySeconds));
    this.status = status;
    this.code = body.error;
    this.correlationId = body.correlationId;
    this.docUrl = body.docUrl;
    /** Member of the request's body that the API refused; undefined if the error is not about one member. */
    this.member = body.details?.[0]?.path.split(".")[0];
  }
}

/** Messages by error code. Each message tells the user what to do. */
const ADVICE = {
  unreachable: "The service is unreachable. Check your connection and try again.",
  incomplete: "The response is incomplete. Try again.",
  invalid_request: "The client id or the secret is malformed. Check both.",
  invalid_client:
    "The client id or the secret is wrong or revoked, or belongs to the other environment. Check both, and the environment.",
  invalid_token: "The credential is invalid, expired or revoked. Sign in again.",
  session_ended: "The session has ended. Sign in again.",
  invalid_scope: "The application has no scopes. Ask the operator to grant scopes.",
  insufficient_scope: "The application or the installation lacks the scope for this. Ask the operator or the clinic.",
  installation_denied: "The clinic has not approved the application, or has withdrawn the approval. Ask the clinic.",
  branch_denied: "The installation does not cover this branch. Select another branch.",
  clinic_not_operational: "The clinic is suspended or closed, so this change is not possible.",
  sandbox_only: "This is possible only in the sandbox.",
  invalid_destination: "The URL is malformed or too long. Correct it.",
  destination_not_approved: "The operator has not approved the origin of this URL. Ask for approval first.",
  webhook_endpoint_limit_reached: "The application has 50 endpoints at this clinic. Revoke one first.",
  webhook_endpoint_not_found: "The endpoint no longer exists. Reload the list.",
  webhook_endpoint_revoked: "The endpoint is revoked. Create a new endpoint.",
  webhook_endpoint_disabled: "The endpoint is disabled. Enable it first.",
  webhook_endpoint_disabled_by_operator: "The operator disabled the endpoint. Only the operator can enable it.",
  concurrent_rotation: "Another request changed the endpoint at the same time. The secret was not rotated. Try again.",
  webhook_delivery_not_found: "The delivery no longer exists. Deliveries are deleted after 30 days.",
  delivery_not_replayable: "The delivery cannot be replayed now. Refresh the list.",
  idempotency_conflict: "The key was already used for a different appointment. Use a new key.",
  rate_limit_exceeded: "Too many requests.",
  fixture_appointment: "The fixture's appointments cannot be changed. Create an appointment and change that one.",
  illegal_transition: "The appointment's status does not permit this. Show the list again.",
  slot_taken: "This time is already booked. Find free times again.",
  entitlement_required: "The clinic does not offer free times.",
  read_model_behind: "The change is recorded, but not readable yet. Refresh in a moment.",
  event_log_unavailable: "The event log is unavailable. If this was a change, its outcome is unknown. Try again.",
  data_source_unavailable: "The database is unavailable.",
  read_models_unavailable: "Names are unavailable at the moment. You can still search by id.",
  index_behind: "The latest events are not yet in the index of the log.",
  different_log: "The index belongs to a different event log. An operator must restore that log or adopt this one.",
  stream_not_found: "The stream does not exist, or you may not see it.",
  stream_not_readable: "The stream contains an event that this release cannot read, so its state cannot be shown.",
};

function describeError(status, { error, details }, retrySeconds) {
  const retryText = retrySeconds > 0 ? ` Try again in ${retrySeconds} s.` : "";
  if (Object.hasOwn(ADVICE, error ?? "")) return ADVICE[error] + retryText;
  const problems = (details ?? []).map(({ path, message }) => (path ? `${path}: ${message}` : message));
  if (problems.length > 0) return `Check your input. ${problems.join("; ")}`;
  if (status >= 502 && status <= 504) return `The service is unavailable at the moment.${retryText || " Try again."}`;
  return `The service returned the error ${status} ${error ?? ""}.${retryText || " Try again."}`;
}

/**
 * Sends a request to the origin of the page, without cookies.
 *
 * @throws {ApiError} if the service is unreachable
 */
export function sendRequest(url, options) {
  const fixedOptions = { cache: "no-store", credentials: "omit", redirect: "error" };
  return fetch(url, { ...options, ...fixedOptions }).catch((error) => {
    throw options.signal?.aborted ? error : new ApiError(0, { error: "unreachable" });
  });
}

/** Converts an error response and its parsed body to an error. */
export function toApiError({ status, headers }, body) {
  return new ApiError(status, body, Number(headers.get("Retry-After") ?? 0));
}

/** Returns the query part of a URL, with its `?`; empty if no parameters are left. Omits undefined and empty values. */
export function toQueryString(parameters) {
  const members = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== "");
  return members.length === 0 ? "" : `?${new URLSearchParams(members)}`;
}
