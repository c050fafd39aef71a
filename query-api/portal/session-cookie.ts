import { z } from "zod";

/** Maximum number of cookie chunks. More chunks do not fit into a request's headers. */
const MAX_CHUNKS = 10;

const BASE64_PREFIX = "base64-";

const sessionSchema = z.object({ access_token: z.string().min(1) });

/**
 * Extracts the access token from the portal's session cookie. The session is JSON, either as plain text, or as
 * base64url after the prefix `base64-`. The session is in one cookie, or in several cookies with the names `<name>.0`,
 * `<name>.1` and so on. Ignores the session's other fields, because they are not signed.
 *
 * @param header the Cookie header
 * @param name name of the session cookie
 * @returns undefined if there is no session, or the session is not readable
 */
export function extractAccessToken(header: string | undefined, name: string): string | undefined {
  const cookies = collectCookies(header ?? "", name);
  const cookie = cookies.get(name) ?? joinChunks(cookies, name);
  const sessionJson = cookie?.startsWith(BASE64_PREFIX) ? decodeBase64url(cookie.slice(BASE64_PREFIX.length)) : cookie;
  if (sessionJson === undefined) return undefined;
  try {
    return sessionSchema.safeParse(JSON.parse(sessionJson)).data?.access_token;
  } catch {
    return undefined; // The text is not JSON: a chunk is missing, or another program wrote the cookie.
  }
}

/**
 * Returns the session's cookies by name. If a name is repeated, the first cookie is used, as in the portal. Empty
 * cookies are omitted, because an empty cookie is a deleted cookie.
 */
function collectCookies(header: string, name: string): Map<string, string> {
  const cookies = new Map<string, string>();
  for (const pair of header.split(";")) {
    const separatorIndex = pair.indexOf("=");
    const key = pair.slice(0, Math.max(0, separatorIndex)).trim();
    if (key !== name && !key.startsWith(`${name}.`)) continue;
    const value = decodeValue(pair.slice(separatorIndex + 1).trim());
    if (!cookies.has(key)) cookies.set(key, value);
  }
  for (const [key, value] of cookies) if (value === "") cookies.delete(key);
  return cookies;
}

function decodeValue(text: string): string {
  const unquotedText = text.startsWith('"') && text.endsWith('"') && text.length > 1 ? text.slice(1, -1) : text;
  try {
    return decodeURIComponent(unquotedText);
  } catch {
    return unquotedText; // The text contains a % without two hex digits, so it is not percent-encoded.
  }
}

function joinChunks(cookies: Map<string, string>, name: string): string | undefined {
  const chunkCount = [...cookies.keys()].filter((key) => /^\d+$/.test(key.slice(name.length + 1))).length;
  if (chunkCount === 0 || chunkCount > MAX_CHUNKS) return undefined;
  const chunks = Array.from({ length: chunkCount }, (_, index) => cookies.get(`${name}.${index}`));
  return chunks.includes(undefined) ? undefined : chunks.join("");
}

function decodeBase64url(text: string): string | undefined {
  if (!/^[A-Za-z0-9_-]+={0,2}$/.test(text)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(text, "base64url"));
  } catch {
    return undefined; // The bytes are not UTF-8.
  }
}
