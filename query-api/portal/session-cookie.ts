import { z } from "zod";

/** More chunks than a request's headers can hold are nothing that the portal wrote. */
const MAXIMUM_CHUNKS = 10;

const ENCODED = "base64-";

const session = z.object({ access_token: z.string().min(1) });

/**
 * The access token in the portal's session cookie: JSON, as it is or as `base64-` + base64url, in one cookie of the
 * name or in chunks `<name>.0`, `<name>.1`, … Everything else that the session says is the browser's word and unread.
 *
 * @param header the Cookie header
 * @returns undefined where there is no session, or none that can be read
 */
export function accessTokenOf(header: string | undefined, name: string): string | undefined {
  const cookies = cookiesOf(header ?? "", name);
  const value = cookies.get(name) ?? joinChunks(cookies, name);
  const text = value?.startsWith(ENCODED) ? decodeBase64url(value.slice(ENCODED.length)) : value;
  if (text === undefined) return undefined;
  try {
    return session.safeParse(JSON.parse(text)).data?.access_token;
  } catch {
    return undefined; // not JSON: a broken tail, or a cookie of somebody else's making
  }
}

/** The session's cookies. Of several with one name the first counts, as it does for the portal; empty ones are deleted ones. */
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
    return bare; // a lone % stands for itself
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
