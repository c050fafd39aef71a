import { createHmac } from "node:crypto";

/** Signed content of a delivery. The id is the same in every attempt; the timestamp is that of the attempt. */
export interface SignedContent {
  deliveryId: string;
  /** Seconds since 1970. */
  timestamp: number;
  body: string;
}

const PREFIX = "whsec_";

/**
 * Signs with the Standard Webhooks scheme: HMAC-SHA256 over `id.timestamp.body`, base64, one `v1,` value for each secret.
 *
 * @param secrets `whsec_` and base64; several while rotated secrets are still valid
 * @returns headers with the names of the brand and with the standard names
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
