import { z } from "zod";
import { webhookEventType } from "../domain/events/partner.ts";

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
      "Reason why the endpoint is disabled; null if it is not disabled. `operator`: the operator disabled it. `gone`: the receiver returned 410. `no_success`: five days of repeated failures.",
    ),
  createdAt: instant,
  updatedAt: instant,
});
export type WebhookEndpointRecord = z.infer<typeof webhookEndpointRecord>;
