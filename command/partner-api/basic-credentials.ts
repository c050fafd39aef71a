import { decodeFormText } from "../../shared/http/request-body.ts";

/** An application's id and secret, as the caller sent them. */
export interface ClientCredentials {
  clientId: string;
  clientSecret: string;
}

/**
 * Parses an Authorization header with the scheme Basic (RFC 7617). User name and password are form-encoded, as RFC
 * 6749, section 2.3.1 requires. Ids and secrets contain no characters that encoding changes, so the credentials of
 * clients that omit this encoding are the same.
 *
 * @returns undefined if the header has another scheme or is malformed
 */
export function parseBasicCredentials(authHeader: string): ClientCredentials | undefined {
  const base64 = /^Basic +([A-Za-z0-9+/]+={0,2})$/i.exec(authHeader)?.[1];
  const [encodedId, ...secretParts] = (base64 && decodeUtf8(Buffer.from(base64, "base64")))?.split(":") ?? [];
  if (encodedId === undefined || secretParts.length === 0) return undefined;
  const [clientId, clientSecret] = [decodeFormText(encodedId), decodeFormText(secretParts.join(":"))];
  return clientId === undefined || clientSecret === undefined ? undefined : { clientId, clientSecret };
}

function decodeUtf8(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
