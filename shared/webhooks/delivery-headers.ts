/**
 * Returns headers that do not depend on the delivery.
 */
export function createCommonHeaders(contentType: string): Record<string, string> {
  return {
    "Content-Type": contentType,
    "User-Agent": "ClinicService-Webhooks/1",
    // The start of the response is stored unchanged, so the response must not be compressed.
    "Accept-Encoding": "identity",
  };
}

/**
 * Returns the headers that identify a delivery. They are the same in all attempts.
 *
 * @param brand brand segment of header names, for example `SERVICE` in `X-SERVICE-Delivery-ID`
 */
export function createDeliveryIdHeaders(deliveryId: string, brand: string): Record<string, string> {
  return { [`X-${brand}-Delivery-ID`]: deliveryId, "webhook-id": deliveryId };
}

/** Converts an attempt's time to the value of its timestamp headers: seconds since 1970. @param startedAt milliseconds */
export function toDeliveryTimestamp(startedAt: number): number {
  return Math.floor(startedAt / 1_000);
}
