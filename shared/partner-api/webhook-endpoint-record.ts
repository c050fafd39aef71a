import { z } from "zod";
import {
  deliveryOrdering,
  operationalEventType,
  webhookBodyFormat,
  webhookEventType,
} from "../domain/events/partner.ts";
import { WEBHOOK_KEYS_PATH } from "../webhooks/asymmetric-signature.ts";

const instant = z.iso.datetime({ precision: 3 });

/** Schema of a webhook endpoint in the partner API. */
export const webhookEndpointRecord = z.strictObject({
  id: z.guid(),
  clinicId: z.guid(),
  url: z.url(),
  events: z.array(webhookEventType),
  status: z.enum(["active", "disabled", "revoked"]),
  disabledReason: z
    .string()
    .nullable()
    .describe(
      "Reason why the endpoint is disabled; null if it is not disabled. `operator`: the operator disabled it, and only the operator can enable it. `partner`: the application disabled it. `gone`: the receiver returned 410. `no_success`: five days of repeated failures.",
    ),
  createdAt: instant,
  updatedAt: instant,
});
export type WebhookEndpointRecord = z.infer<typeof webhookEndpointRecord>;

/** Description of the setting `ordering`. */
export const orderingText =
  "Order of deliveries. `none`: events arrive in any order. `appointment`: an attempt starts only after all deliveries of earlier events of the same appointment have ended. A delivery that keeps failing delays only later events of its own appointment. Events do not wait for deliveries that were created before the setting.";

/** Description of the setting `bodyFormat`. */
export const bodyFormatText =
  "Format of the bodies. `standard`: JSON as described for each event. `cloudevents`: a CloudEvent 1.0 in the structured mode, with the content type `application/cloudevents+json`. Both formats have the same `data`.";

/** Description of the setting `asymmetricSignature`. */
export const asymmetricSignatureText = `True if deliveries have an Ed25519 signature (\`v1a\`) in addition to the HMAC signature. It is verified with the public keys at \`${WEBHOOK_KEYS_PATH}\`, without the endpoint's secret.`;

/** Schema of a webhook endpoint with all its settings. The values of custom headers are never returned. */
export const webhookEndpointDetail = z.strictObject({
  ...webhookEndpointRecord.shape,
  operationalEvents: z
    .array(operationalEventType)
    .describe("Types of events about the application's endpoints that this endpoint receives."),
  branchIds: z
    .array(z.guid())
    .nullable()
    .describe("Branches whose events the endpoint receives; null for all branches of the installation."),
  headerNames: z.array(z.string()).describe("Names of the custom headers. Their values are never returned."),
  rateLimitPerSecond: z.int().min(1).nullable().describe("Maximum number of attempts per second; null for no limit."),
  ordering: deliveryOrdering.describe(orderingText),
  bodyFormat: webhookBodyFormat.describe(bodyFormatText),
  asymmetricSignature: z.boolean().describe(asymmetricSignatureText),
});
export type WebhookEndpointDetail = z.infer<typeof webhookEndpointDetail>;
