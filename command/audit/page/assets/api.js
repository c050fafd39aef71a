import { getElement } from "./dom.js";
import { ApiError, sendRequest, toApiError, toQueryString } from "./http.js";
import { rememberNames } from "./names.js";
import { leave } from "./sign-out.js";

const CREDENTIAL_KEY = "auditor-credential";

/** Key in sessionStorage of the selected clinic's id, so that the selection survives a reload of the tab. */
export const CLINIC_KEY = "audit-clinic";

export const STORAGE_KEYS = [CREDENTIAL_KEY, CLINIC_KEY];

/**
 * The auditor's credential, which is stored only in this tab. The credential is sent in a header and never appears in a
 * URL.
 */
export const credential = {
  get: () => sessionStorage.getItem(CREDENTIAL_KEY),
  set: (text) => sessionStorage.setItem(CREDENTIAL_KEY, text),
  remove: () => sessionStorage.removeItem(CREDENTIAL_KEY),
};

/** Signs the auditor out, and removes all data from the page. */
export function signOut(reason) {
  leave(STORAGE_KEYS, reason);
}

function request(path, query, signal) {
  return send(path + toQueryString(query), { signal });
}

/** Sends a request with the credential. Signs out if the credential of a session is refused. */
async function send(pathAndQuery, options) {
  const headers = { ...options.headers, Authorization: `Bearer ${credential.get()}` };
  const response = await sendRequest(`/audit/v1/${pathAndQuery}`, { ...options, headers });
  if (response.ok) return response;
  const error = toApiError(response, await response.json().catch(() => ({})));
  if (error.status === 401 && !getElement("desk").hidden) signOut(error.message);
  throw error;
}

/** Sends a query whose response is one JSON object, remembers the names in it, and returns the object. */
export async function fetchJson(path, query, signal) {
  const object = await (await request(path, query, signal)).json();
  if (object.names !== undefined) rememberNames(object.names);
  return object;
}

/** Maximum length of the line that replaces the last line of an incomplete file. */
const MAX_ERROR_BYTES = 10_000;

/** Sends a query whose response is a file, and returns the file. Throws an error if the response is incomplete. */
export async function fetchBlob(path, query) {
  const response = await request(path, query);
  const blob = await response.blob().catch(() => {
    throw new ApiError(0, { error: "incomplete" });
  });
  const [, error] = /(?:^|\n)(\{"error":.*)\n$/.exec(await blob.slice(-MAX_ERROR_BYTES).text()) ?? [];
  if (error) throw Object.assign(new ApiError(0, {}), JSON.parse(error));
  return blob;
}

/** Sends a query whose parameters must not be in the URL, and returns the JSON object of the response. */
export async function postJson(path, query, signal) {
  const headers = { "Content-Type": "application/json" };
  return (await send(path, { method: "POST", headers, body: JSON.stringify(query), signal })).json();
}

/**
 * Sends a query whose response is a list with one JSON object per line, and remembers the names in it. Throws an error if
 * the response is incomplete.
 *
 * @returns {Promise<{ items: object[], end: object }>} `end`: content of the last line, which marks a complete response
 */
export async function fetchList(path, query, signal) {
  const response = await request(path, { ...query, names: "true" }, signal);
  const text = await response.text().catch(() => "");
  signal?.throwIfAborted();
  const items = text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
  const { end } = items.pop() ?? {};
  if (!end) throw new ApiError(0, { error: "incomplete" });
  rememberNames(end.names);
  return { items, end };
}
