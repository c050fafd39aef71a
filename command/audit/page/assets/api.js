/** The credential stays in this tab. It is sent in a header and never appears in a URL. */
const KEY = "auditor-credential";

export const credential = {
  get: () => sessionStorage.getItem(KEY),
  set: (text) => sessionStorage.setItem(KEY, text),
  forget: () => sessionStorage.removeItem(KEY),
};

/** The service refused a request or could not answer it. */
export class Refused extends Error {
  constructor(status, code, details, retryAfter) {
    super(wordsFor(status, code, details, retryAfter));
    this.status = status;
    this.code = code;
  }
}

function wordsFor(status, code, details, retryAfter) {
  if (status === 400 && details) return details.map(({ path, message }) => `${path}: ${message}`).join("; ");
  const again = retryAfter ? ` Try again in ${retryAfter} s.` : "";
  const words = {
    invalid_token: "The credential is invalid, expired or revoked.",
    too_many_scans: "Too many searches are running.",
    rate_limit_exceeded: "Too many requests in one minute.",
    event_log_unavailable: "The event log is unavailable.",
    data_source_unavailable: "The database is unavailable.",
    stream_not_found: "The stream does not exist, or you may not see it.",
    stream_not_readable:
      "The stream contains an event that this release cannot read, so its state cannot be shown.",
  };
  return (words[code] ?? `The service answered ${status} ${code}.`) + again;
}

async function request(path, query, signal) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const response = await fetch(`/audit/v1/${path}?${new URLSearchParams(given)}`, {
    headers: { Authorization: `Bearer ${credential.get()}` },
    cache: "no-store",
    credentials: "omit",
    signal,
  });
  if (response.ok) return response;
  const { error, details } = await response.json().catch(() => ({ error: "unknown" }));
  throw new Refused(response.status, error, details, response.headers.get("Retry-After"));
}

/** Requests one JSON response. */
export async function ask(path, query, signal) {
  return (await request(path, query, signal)).json();
}

/**
 * Requests a response in lines and yields each line as it arrives. An incomplete response is an error.
 *
 * @returns the last line, which marks a complete response
 */
export async function* askLines(path, query, signal) {
  const response = await request(path, query, signal);
  let rest = "";
  let end;
  for await (const chunk of chunksOf(response.body.pipeThrough(new TextDecoderStream()))) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const value = JSON.parse(line);
      if (value.end) end = value.end;
      else yield value;
    }
  }
  if (!end) throw new Error("The response ended early. Try again.");
  return end;
}

/** Not every browser supports iteration over a stream. */
async function* chunksOf(stream) {
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
