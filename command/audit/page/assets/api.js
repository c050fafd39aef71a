import { rememberNames } from "./names.js";

const STORAGE_KEY = "auditor-credential";

/**
 * The auditor's credential, which is stored only in this tab. The credential is sent in a header and never appears in a
 * URL.
 */
export const credential = {
  get: () => sessionStorage.getItem(STORAGE_KEY),
  set: (text) => sessionStorage.setItem(STORAGE_KEY, text),
  remove: () => sessionStorage.removeItem(STORAGE_KEY),
};

/** The service returned an error. */
export class ServiceError extends Error {
  constructor(status, code, details, retryAfter) {
    super(describeError(status, code, details, retryAfter));
    this.status = status;
    this.code = code;
  }
}

function describeError(status, code, details, retryAfter) {
  if (status === 400 && details) return details.map(({ path, message }) => `${path}: ${message}`).join("; ");
  const retryText = retryAfter ? ` Try again in ${retryAfter} s.` : "";
  const texts = {
    invalid_token: "The credential is invalid, expired or revoked. Sign in again to continue.",
    rate_limit_exceeded: "Too many requests.",
    index_behind: "The latest events are not yet in the index of the log.",
    different_log: "The index belongs to a different event log. An operator must restore that log or adopt this one.",
    event_log_unavailable: "The event log is unavailable.",
    data_source_unavailable: "The database is unavailable.",
    read_models_unavailable: "Names are unavailable at the moment. You can still search by id.",
    stream_not_found: "The stream does not exist, or you may not see it.",
    stream_not_readable: "The stream contains an event that this release cannot read, so its state cannot be shown.",
  };
  return (texts[code] ?? `The service returned the error ${status} ${code}.`) + retryText;
}

async function request(path, query, signal) {
  const parameters = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  return send(`${path}?${new URLSearchParams(parameters)}`, { signal });
}

async function send(pathAndQuery, { headers, ...options }) {
  const response = await fetch(`/audit/v1/${pathAndQuery}`, {
    headers: { ...headers, Authorization: `Bearer ${credential.get()}` },
    cache: "no-store",
    credentials: "omit",
    ...options,
  }).catch((error) => {
    if (options.signal?.aborted) throw error;
    throw new Error("The service is unreachable. Check the connection.");
  });
  if (response.ok) return response;
  const { error, details } = await response.json().catch(() => ({ error: "unknown" }));
  throw new ServiceError(response.status, error, details, response.headers.get("Retry-After"));
}

/** Sends a query whose response is one JSON object, remembers the names in it, and returns the object. */
export async function fetchJson(path, query, signal) {
  const object = await (await request(path, query, signal)).json();
  if (object.names !== undefined) rememberNames(object.names);
  return object;
}

/** Sends a query whose response is a file, and returns the file. Throws an error if the response is incomplete. */
export async function fetchBlob(path, query, signal) {
  const response = await request(path, query, signal);
  return response.blob().catch(() => {
    throw new Error("The response is incomplete. Try again.");
  });
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
  const lines = text.split("\n").filter(Boolean);
  const items = lines.map((line) => JSON.parse(line));
  const { end } = items.pop() ?? {};
  if (!end) throw new Error("The response is incomplete. Try again.");
  rememberNames(end.names);
  return { items, end };
}
