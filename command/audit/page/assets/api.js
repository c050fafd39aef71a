/** The credential stays in this tab: it is sent in a header, and never stands in an address. */
const KEY = "auditor-credential";

export const credential = {
  get: () => sessionStorage.getItem(KEY),
  set: (text) => sessionStorage.setItem(KEY, text),
  forget: () => sessionStorage.removeItem(KEY),
};

/** The service said no, or not now. */
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
    invalid_token: "The credential is not valid, or not any more.",
    too_many_scans: "Too many searches run at once.",
    rate_limit_exceeded: "That were too many questions in a minute.",
    event_log_unavailable: "The event log is out of reach.",
    data_source_unavailable: "The database is out of reach.",
    stream_not_found: "There is no such stream for you.",
    stream_not_readable:
      "The stream holds an event that the service cannot read, so there is no state to show.",
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

/** Asks for one JSON answer. */
export async function ask(path, query, signal) {
  return (await request(path, query, signal)).json();
}

/**
 * Asks for an answer in lines, and gives each as it comes. An answer that breaks off is an error.
 *
 * @returns the last line, which says that the answer is whole
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
  if (!end) throw new Error("The answer broke off.");
  return end;
}

/** Not every browser lets a stream be iterated. */
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
