import { LRUCache } from "lru-cache";
import type { SecretBox } from "../../../shared/auth/secret-box.ts";
import { formatWebhookBody } from "../../../shared/partner-api/cloud-event.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import { startSpan } from "../../../shared/tracing/span.ts";
import type { SignAsymmetrically } from "../../../shared/webhooks/asymmetric-signature.ts";
import type { AttemptError } from "../../../shared/webhooks/attempt-error.ts";
import {
  createCommonHeaders,
  createSignatureHeaders,
  type SignedContent,
  toDeliveryTimestamp,
  toSignedText,
} from "../../../shared/webhooks/delivery-headers.ts";
import type { DestinationOptions } from "../../../shared/webhooks/destination.ts";
import type { ClaimedDelivery } from "./claim.ts";
import type { Connections } from "./connections.ts";
import type { Verdict } from "./retry-policy.ts";
import { type AttemptLimits, type SendResult, send } from "./send.ts";

export interface FinishedAttempt {
  delivery: ClaimedDelivery;
  result: SendResult;
  verdict: Verdict;
}

export interface AttemptOptions extends DestinationOptions, AttemptLimits {
  connections: Connections;
  secretReader: SecretReader;
  /** Creates asymmetric signatures. Absent if no signing key is configured. */
  signAsymmetrically?: SignAsymmetrically | undefined;
  /** Brand segment of header names, for example `SERVICE` in `X-SERVICE-Signature`. */
  brand: string;
  logger: Logger;
  onEgressProxyFailure?(): void;
}

/**
 * Makes one attempt at a delivery: signs the body with the recorded start time of the attempt and sends the request. If
 * the delivery is traced, the attempt is a span, and the request names the span in the header `traceparent`.
 *
 * @returns undefined if the signal interrupted the attempt
 */
export async function attemptDelivery(
  delivery: ClaimedDelivery,
  options: AttemptOptions,
  signal: AbortSignal,
): Promise<SendResult | undefined> {
  const span = startSpan("attempt delivery", "client", delivery.traceparent, {
    "attempt.number": delivery.attemptNumber,
  });
  const sendResult = await signAndSend(delivery, options, signal, span && { traceparent: span.traceparent });
  if (typeof sendResult?.statusCode === "number") {
    span?.setAttributes({ "http.response.status_code": sendResult.statusCode });
  }
  span?.end(findFailure(sendResult));
  return sendResult;
}

/** Describes the failure of an attempt for its span. Returns undefined if the receiver accepted the delivery. */
function findFailure(sendResult: SendResult | undefined): string | undefined {
  if (!sendResult) return "interrupted";
  const { error, statusCode } = sendResult;
  if (error !== null) return error;
  return statusCode !== null && statusCode >= 200 && statusCode <= 299 ? undefined : String(statusCode);
}

async function signAndSend(
  delivery: ClaimedDelivery,
  options: AttemptOptions,
  signal: AbortSignal,
  traceHeaders: Record<string, string> | undefined,
): Promise<SendResult | undefined> {
  const { secretReader, brand, logger } = options;
  const { applicationId, deliveryId, endpointId, attemptNumber: number, url, body: standardBody } = delivery;
  if (standardBody === undefined) {
    logger.error({ deliveryId, endpointId }, "The read models lack the event of a delivery.");
    return createUnsentResult("event_unavailable");
  }
  try {
    const signingSecrets = await Promise.all(delivery.encryptedSecrets.map(secretReader.open));
    if (signingSecrets.length === 0) throw new Error("The endpoint has no secret.");
    const { body, contentType } = formatWebhookBody(standardBody, delivery.bodyFormat);
    const content = { deliveryId, timestamp: toDeliveryTimestamp(delivery.startedAt), body };
    const asymmetricSignatures = await createAsymmetricSignatures(delivery, content, options);
    const headers = {
      ...(await openHeaders(delivery, secretReader)),
      ...createCommonHeaders(contentType),
      ...traceHeaders,
      ...createSignatureHeaders(content, signingSecrets, brand, asymmetricSignatures),
    };
    const sendResult = await send(url, headers, body, { ...options, applicationId, signal });
    const { statusCode, error: fault, durationMs } = sendResult ?? {};
    if (fault === "egress_proxy_failed") options.onEgressProxyFailure?.();
    logger.debug({ deliveryId, endpointId, number, statusCode, fault, durationMs }, "An attempt ended.");
    return sendResult;
  } catch (error) {
    // The cause is in this service, not at the receiver.
    logger.error(
      { error, deliveryId, endpointId },
      "A delivery cannot be signed. Check WEBHOOK_SECRET_KEYS and WEBHOOK_SIGNING_KEYS.",
    );
    return createUnsentResult("not_signed");
  }
}

function createUnsentResult(error: AttemptError): SendResult {
  return { statusCode: null, error, retryAfter: null, responseBody: null, durationMs: 0 };
}

/**
 * Returns the asymmetric signature. Returns an empty array if the endpoint does not use asymmetric signatures.
 *
 * @throws if the endpoint uses them, but no signing key is configured
 */
async function createAsymmetricSignatures(
  { hasAsymmetricSignature }: ClaimedDelivery,
  content: SignedContent,
  { signAsymmetrically }: AttemptOptions,
): Promise<string[]> {
  if (!hasAsymmetricSignature) return [];
  if (!signAsymmetrically) throw new Error("The endpoint asks for asymmetric signatures, but there is no signing key.");
  return [await signAsymmetrically(toSignedText(content))];
}

/** Decrypts the endpoint's custom headers. They never have the name of a header that the service sets. */
async function openHeaders(
  { encryptedHeaders }: ClaimedDelivery,
  secretReader: SecretReader,
): Promise<Record<string, string>> {
  const entries = encryptedHeaders.map(async ({ name, encryptedValue }) => [
    name,
    await secretReader.open(encryptedValue),
  ]);
  return Object.fromEntries(await Promise.all(entries));
}

type SecretReader = Pick<SecretBox, "open">;

/** Maximum memory for decrypted secrets: enough for a few hundred endpoints. */
const MAX_CACHE_BYTES = 8 * 1024 * 1024;

const SECRET_BYTES = 500;

/** Caches decrypted secrets, so that not every delivery decrypts its secret again. */
export function createSecretCache(reader: SecretReader): SecretReader {
  const openedSecrets = new LRUCache<string, Promise<string>>({
    maxSize: MAX_CACHE_BYTES,
    sizeCalculation: (_, encryptedSecret) => SECRET_BYTES + 2 * encryptedSecret.length,
  });
  return {
    open(encryptedSecret) {
      const openedSecret = openedSecrets.get(encryptedSecret);
      if (openedSecret) return openedSecret;
      const secretPromise = reader.open(encryptedSecret);
      openedSecrets.set(encryptedSecret, secretPromise);
      secretPromise.catch(() => openedSecrets.delete(encryptedSecret));
      return secretPromise;
    },
  };
}
