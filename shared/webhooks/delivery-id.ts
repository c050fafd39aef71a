import { hash } from "node:crypto";
import { parse as parseUuid, stringify as stringifyUuid } from "uuid";

/**
 * Derives the id of a webhook delivery. All attempts to deliver one event to one endpoint have the same delivery id.
 * The id is a UUID of version 8 (RFC 9562), made from a SHA-256 hash. The SQL function `webhooks.delivery_id` derives
 * the same id.
 */
export function deriveWebhookDeliveryId(eventId: string, endpointId: string): string {
  const bytes = hash("sha256", Buffer.from([...parseUuid(eventId), ...parseUuid(endpointId)]), "buffer").subarray(
    0,
    16,
  );
  bytes[6] = (bytes.readUInt8(6) & 0x0f) | 0x80;
  bytes[8] = (bytes.readUInt8(8) & 0x3f) | 0x80;
  return stringifyUuid(bytes);
}
