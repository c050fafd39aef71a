import { z } from "zod";

/** The portal writes fewer chunks: more do not fit into a request's headers. */
const MAXIMUM_CHUNKS = 10;

const ENCODED = "base64-";

const session = z.object({ access_token: z.string().min(1) });

/**
 * Extracts the access token from the portal's session cookie. The session is JSON, plain or as `base64-` and
 * base64url, in one cookie or in chunks `<name>.0`, `<name>.1` and so on. Its other fields are not trusted and not
 * read.
 *
 * @param header the Cookie header
 * @returns undefined if there is no session, or it is not readable
 */
export function accessTokenOf(header: string | undefined, name: string): string | undefined {
  const cookies = cookiesOf(header ?? "", name);
  const value = cookies.get(name) ?? joinChunks(cookies, name);
  const text = value?.startsWith(ENCODED) ? decodeBase64url(value.slice(ENCODED.length)) : value;
  if (text === undefined) return undefined;
  try {
    return session.safeParse(JSON.parse(text)).data?.access_token;
  } catch {
    return undefined; // not JSON: a chunk is missing, or another program wrote the cookie
  }
}

/**
 * Collects the session's cookies. If a name is repeated, the first one counts, as in the portal. Empty cookies are
 * deleted ones.
 */
function cookiesOf(header: string, name: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const pair of header.split(";")) {
    const separator = pair.indexOf("=");
    const key = pair.slice(0, Math.max(0, separator)).trim();
    if (key !== name && !key.startsWith(`${name}.`)) continue;
    const value = decodeValue(pair.slice(separator + 1).trim());
    if (!found.has(key)) found.set(key, value);
  }
  for (const [key, value] of found) if (value === "") found.delete(key);
  return found;
}

function decodeValue(text: string): string {
  const bare = text.startsWith('"') && text.endsWith('"') && text.length > 1 ? text.slice(1, -1) : text;
  try {
    return decodeURIComponent(bare);
  } catch {
    return bare; // a % without two hex digits is literal
  }
}

function joinChunks(cookies: Map<string, string>, name: string): string | undefined {
  const count = [...cookies.keys()].filter((key) => /^\d+$/.test(key.slice(name.length + 1))).length;
  if (count === 0 || count > MAXIMUM_CHUNKS) return undefined;
  const chunks = Array.from({ length: count }, (_, index) => cookies.get(`${name}.${index}`));
  return chunks.includes(undefined) ? undefined : chunks.join("");
}

function decodeBase64url(text: string): string | undefined {
  if (!/^[A-Za-z0-9_-]+={0,2}$/.test(text)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(text, "base64url"));
  } catch {
    return undefined; // not UTF-8
  }
}
