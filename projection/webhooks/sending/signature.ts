import { createHmac } from "node:crypto";

/** One delivery as it is signed: the same id at every attempt, the time of this one. */
export interface SignedContent {
  deliveryId: string;
  /** Seconds since 1970. */
  timestamp: number;
  body: string;
}

const PREFIX = "whsec_";

/**
 * Signs by the Standard Webhooks scheme: HMAC-SHA256 over `id.timestamp.body`, base64, one `v1,` value for each secret.
 *
 * @param secrets `whsec_` and base64; several while rotated secrets still sign
 * @returns the headers that carry it, under the brand's names and under the standard's
 */
export function signatureHeaders(
  content: SignedContent,
  secrets: readonly string[],
  brand: string,
): Record<string, string> {
  const { deliveryId, timestamp, body } = content;
  const signature = secrets
    .map((secret) => {
      const key = Buffer.from(secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret, "base64");
      return `v1,${createHmac("sha256", key).update(`${deliveryId}.${timestamp}.${body}`).digest("base64")}`;
    })
    .join(" ");
  return {
    [`X-${brand}-Signature`]: signature,
    [`X-${brand}-Timestamp`]: String(timestamp),
    [`X-${brand}-Delivery-ID`]: deliveryId,
    "webhook-signature": signature,
    "webhook-timestamp": String(timestamp),
    "webhook-id": deliveryId,
  };
}
