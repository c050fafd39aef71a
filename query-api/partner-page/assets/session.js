/**
 * The application's session: credentials, access token and clinic. The secret exists only in the memory of this module.
 * The storage of the tab keeps the access token, so that a reload does not end the session.
 */
import { ApiError, sendRequest, toApiError, toQueryString } from "./http.js";
import { showExchange } from "./requests.js";
import { leave } from "./sign-out.js";

/** Brand in header names, as in `X-SERVICE-Clinic-ID`. */
const brand = document.querySelector('meta[name="header-brand"]').content;
const CLINIC_HEADER = `X-${brand}-Clinic-ID`;
const POSITION_HEADER = `X-${brand}-Log-Position`;

/** A token that expires within this time is renewed before the next request. Milliseconds. */
const RENEWAL_MS = 60_000;

/** Key in sessionStorage of the environment and the access token. */
export const STORAGE_KEY = "partner session";

/** Maximum number of attempts of a read while the read models are behind the page's own writes. */
const MAX_READ_ATTEMPTS = 5;

/** The current session; undefined if no application is signed in. */
let session;

/** Exchanges the credentials for a token and starts a session. */
export async function startSession({ environment, clientId, clientSecret }) {
  const next = { environment, clientId, clientSecret, clinicController: new AbortController() };
  await renewToken(next);
  session = next;
}

/**
 * Continues the session that this tab has stored.
 *
 * @throws {ApiError} if no session is stored, or its token is about to expire
 */
export function restoreSession() {
  session = { ...JSON.parse(sessionStorage.getItem(STORAGE_KEY)), clinicController: new AbortController() };
  if (session.expiresAt - Date.now() > RENEWAL_MS) return;
  endSession();
  throw new ApiError(401, { error: "session_ended" });
}

/**
 * Forgets the credentials and the token, and aborts the requests of the session.
 *
 * @param {{ isStored?: boolean }} options if `isStored` is true, the stored token is kept, so that the tab can continue
 *   the session
 */
export function endSession({ isStored = false } = {}) {
  if (!isStored) sessionStorage.removeItem(STORAGE_KEY);
  session?.clinicController.abort();
  session = undefined;
}

/** Signs the application out, and removes all data from the page. */
export function signOut(reason) {
  leave([STORAGE_KEY], reason);
}

export function getEnvironment() {
  return session?.environment;
}

export function getClinicId() {
  return session?.clinicId;
}

/** Selects the clinic for the following requests. Aborts the requests for the former clinic. */
export function setClinicId(clinicId) {
  session.clinicController.abort();
  session.clinicController = new AbortController();
  session.clinicId = clinicId;
}

/** Exchanges the credentials for a new token. Concurrent calls share one exchange. */
function renewToken(current) {
  current.renewal ??= exchangeToken(current).finally(() => {
    current.renewal = undefined;
  });
  return current.renewal;
}

async function exchangeToken(current) {
  const { environment, clientId, clientSecret } = current;
  if (!clientSecret) throw new ApiError(401, { error: "invalid_token" });
  const body = { client_id: clientId, client_secret: clientSecret, grant_type: "client_credentials", environment };
  const response = await send(current, "POST", "/oauth/token", { body });
  current.token = response.body.access_token;
  current.expiresAt = Date.now() + response.body.expires_in * 1_000;
  const { token, expiresAt } = current;
  sessionStorage.setItem(STORAGE_KEY, JSON.stringify({ environment, token, expiresAt }));
}

/**
 * Sends a request to an operation of the partner API and returns the body of the response. A read reflects the earlier
 * writes of this page.
 *
 * @param {string} path path below the base path of the environment
 * @param {{ query?: object, body?: unknown, headers?: Record<string, string>, isAutomatic?: boolean }} options
 *   `isAutomatic`: true if no action of the user caused the request
 */
export async function request(method, path, options) {
  return (await requestWithHeaders(method, path, options)).body;
}

/** Like {@link request}, but returns the body and the headers. */
export async function requestWithHeaders(method, path, options = {}) {
  const current = session;
  const { signal } = current.clinicController;
  if (current.expiresAt - Date.now() < RENEWAL_MS) await renewOrEnd(current);
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await send(current, method, path, { ...options, signal, isAuthorized: true });
    } catch (error) {
      if (error.code === "invalid_token" && attempt === 1) await renewOrEnd(current);
      else if (error.code === "read_model_behind" && attempt < MAX_READ_ATTEMPTS) continue;
      else throw error;
    }
  }
}

/** Waits. Throws an error if the session ends or another clinic is selected. */
export async function wait(ms) {
  const { signal } = session.clinicController;
  await new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
  signal.throwIfAborted();
}

/** Renews the token. If the credentials are no longer valid, signs the application out. */
async function renewOrEnd(current) {
  try {
    await renewToken(current);
  } catch (error) {
    if (error.status === 401) signOut(error.message);
    throw error;
  }
}

async function send(current, method, path, options) {
  const { query = {}, body, headers = {}, isAuthorized = false, isAutomatic = false, signal } = options;
  const url = `/${current.environment}/v1${path}${toQueryString(query)}`;
  const startedAt = performance.now();
  const sentHeaders = { ...buildHeaders(current, method, body, isAuthorized), ...headers };
  const sentBody = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await sendRequest(url, { method, headers: sentHeaders, ...sentBody, signal });
  const responseBody = await response.json().catch(() => ({}));
  signal?.throwIfAborted();
  const durationMs = Math.round(performance.now() - startedAt);
  const correlationId = response.headers.get("X-Correlation-ID");
  const exchange = { method, url, headers: sentHeaders, body, response, responseBody, durationMs, correlationId };
  showExchange({ ...exchange, isAutomatic });
  // Later reads send the log position of the latest write, so that they reflect it.
  const position = BigInt(response.headers.get(POSITION_HEADER) ?? 0);
  if (position > (current.position ?? 0n)) current.position = position;
  if (response.ok) return { body: responseBody, headers: response.headers };
  throw toApiError(response, responseBody);
}

function buildHeaders({ token, clinicId, position }, method, body, isAuthorized) {
  return {
    ...(body === undefined ? {} : { "Content-Type": "application/json" }),
    ...(isAuthorized ? { Authorization: `Bearer ${token}` } : {}),
    ...(isAuthorized && clinicId ? { [CLINIC_HEADER]: clinicId } : {}),
    ...(isAuthorized && method === "GET" && position ? { [POSITION_HEADER]: position } : {}),
  };
}

/** Creates a random idempotency key. `crypto.randomUUID` is not available on pages without TLS. */
export function createIdempotencyKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
