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
    too_many_scans: "Too many searches are running.",
    rate_limit_exceeded: "Too many requests in one minute.",
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

/** Sends a query whose response is one JSON object, and returns the object. */
export async function fetchJson(path, query, signal) {
  return (await request(path, query, signal)).json();
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
 * Sends a query whose response is a list with one JSON object per line, and yields each object as it arrives. Throws an
 * error if the response is incomplete.
 *
 * @returns the content of the last line, which marks a complete response
 */
export async function* fetchLines(path, query, signal) {
  const response = await request(path, query, signal);
  let rest = "";
  let end;
  for await (const chunk of readChunks(response.body.pipeThrough(new TextDecoderStream()))) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const value = JSON.parse(line);
      if (value.end) end = value.end;
      else yield value;
    }
  }
  if (!end) throw new Error("The response is incomplete. Try again.");
  return end;
}

/** Yields the chunks of a stream. Some browsers cannot iterate over a stream directly. */
async function* readChunks(stream) {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}
