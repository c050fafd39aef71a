import { createHmac } from "node:crypto";

/** Returns the headers that do not depend on the delivery. */
export function createCommonHeaders(contentType: string): Record<string, string> {
  return {
    "Content-Type": contentType,
    "User-Agent": "ClinicService-Webhooks/1",
    // The start of the response is stored unchanged, so the response must not be compressed.
    "Accept-Encoding": "identity",
  };
}

/**
 * Returns the headers that identify a delivery. The headers are the same in all attempts.
 *
 * @param brand brand segment of header names, for example `SERVICE` in `X-SERVICE-Delivery-ID`
 */
export function createDeliveryIdHeaders(deliveryId: string, brand: string): Record<string, string> {
  return { [`X-${brand}-Delivery-ID`]: deliveryId, "webhook-id": deliveryId };
}

/** Converts milliseconds since 1970 to seconds since 1970, for the timestamp headers of a delivery. */
export function toDeliveryTimestamp(startedAt: number): number {
  return Math.floor(startedAt / 1_000);
}

/** Parts of a delivery that a signature covers. */
export interface SignedContent {
  /** Identical in all attempts. */
  deliveryId: string;
  /** Seconds since 1970. */
  timestamp: number;
  body: string;
}

const SECRET_PREFIX = "whsec_";

/**
 * Signs a delivery with the Standard Webhooks scheme: HMAC-SHA256 over `id.timestamp.body`, encoded in base64. The
 * signature header has one `v1,` value for each secret, and then any asymmetric signatures.
 *
 * @param secrets texts of the form `whsec_<base64>`; more than one while rotated secrets are still valid
 * @param asymmetricSignatures signatures of {@link toSignedText}, of the form `v1a,<base64>`
 * @returns each header twice, with its branded name and its standard name
 */
export function createSignatureHeaders(
  content: SignedContent,
  secrets: readonly string[],
  brand: string,
  asymmetricSignatures: readonly string[] = [],
): Record<string, string> {
  const { deliveryId, timestamp } = content;
  const signedText = toSignedText(content);
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.startsWith(SECRET_PREFIX) ? secret.slice(SECRET_PREFIX.length) : secret, "base64");
    return `v1,${createHmac("sha256", key).update(signedText).digest("base64")}`;
  });
  const signature = [...signatures, ...asymmetricSignatures].join(" ");
  return {
    [`X-${brand}-Signature`]: signature,
    [`X-${brand}-Timestamp`]: String(timestamp),
    "webhook-signature": signature,
    "webhook-timestamp": String(timestamp),
    ...createDeliveryIdHeaders(deliveryId, brand),
  };
}

export function toSignedText({ deliveryId, timestamp, body }: SignedContent): string {
  return `${deliveryId}.${timestamp}.${body}`;
}
