import type { Logger } from "../../../shared/runtime/logger.ts";
import type { DestinationOptions } from "../../../shared/webhooks/destination.ts";
import type { ClaimedDelivery } from "./claim.ts";
import type { Connections } from "./connections.ts";
import type { SecretReader } from "./secrets.ts";
import { type AttemptLimits, type SendResult, send } from "./send.ts";
import { createSignatureHeaders } from "./signature.ts";

export interface AttemptOptions extends DestinationOptions, AttemptLimits {
  connections: Connections;
  secretReader: SecretReader;
  /** Brand segment of header names, for example `SERVICE` in `X-SERVICE-Signature`. */
  brand: string;
  logger: Logger;
  /** Milliseconds since 1970. */
  clock(): number;
}

const USER_AGENT = "ClinicService-Webhooks/1";

/**
 * Makes one attempt at a delivery: signs the body with the current time and sends the request.
 *
 * @returns undefined if the signal interrupted the attempt
 */
export async function attemptDelivery(
  delivery: ClaimedDelivery,
  options: AttemptOptions,
  signal: AbortSignal,
): Promise<SendResult | undefined> {
  const { secretReader, brand, clock, logger } = options;
  const { applicationId, deliveryId, endpointId, attemptNumber: number, body, url } = delivery;
  try {
    const signingSecrets = await Promise.all(delivery.encryptedSecrets.map(secretReader.open));
    if (signingSecrets.length === 0) throw new Error("The endpoint has no secret.");
    const timestamp = Math.floor(clock() / 1_000);
    const headers = {
      "Content-Type": "application/json",
      "User-Agent": USER_AGENT,
      // The start of the response is stored unchanged, so the response must not be compressed.
      "Accept-Encoding": "identity",
      ...createSignatureHeaders({ deliveryId, timestamp, body }, signingSecrets, brand),
    };
    const sendResult = await send(url, headers, body, { ...options, applicationId, signal });
    const { statusCode, error: fault, durationMs } = sendResult ?? {};
    logger.debug({ deliveryId, endpointId, number, statusCode, fault, durationMs }, "An attempt ended.");
    return sendResult;
  } catch (error) {
    // The cause is in this service, not at the receiver.
    logger.error({ error, deliveryId, endpointId }, "A delivery cannot be signed. Check WEBHOOK_SECRET_KEYS.");
    return { statusCode: null, error: "not_signed", retryAfter: null, responseBody: null, durationMs: 0 };
  }
}
