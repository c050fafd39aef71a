import { z } from "zod";
import { webhookEndpoint, webhookEndpointDetail, webhookReplay } from "./records.ts";
import {
  webhookEndpointChanges,
  webhookEndpointEnabling,
  webhookEndpointRequest,
  webhookReplayRequest,
} from "./request-bodies.ts";
import {
  clinicStatusErrors,
  idempotencyKeyHeader,
  ok,
  type PartnerWrite,
  replayedHeader,
} from "./write-declaration.ts";

const secret = z
  .string()
  .meta({ description: "Signing secret: `whsec_` and base64. It is shown only in this response." });
const queuedDeliveryBody = z.strictObject({
  ok,
  delivery: z.strictObject({ id: z.guid(), status: z.literal("pending") }),
});
const endpointErrors = { webhook_endpoint_not_found: 404 } as const;
const endpointUrlErrors = {
  validation_failed: 400,
  invalid_destination: 400,
  unsafe_destination: 400,
  destination_not_approved: 400,
} as const;

const endpointWithSecretBody = z.strictObject({ ok, endpoint: webhookEndpoint.schema, secret });
const endpointDetailBody = z.strictObject({ ok, endpoint: webhookEndpointDetail.schema });

/** Operations that change the endpoints of an owner: of a clinic, or of the application. */
export const endpointWrites = {
  createWebhookEndpoint: {
    description: "Registers a URL that receives events of the clinic, or of the application.",
    request: webhookEndpointRequest,
    successResponse: {
      status: 201,
      description: "The endpoint and its signing secret. The secret is not shown again.",
      body: endpointWithSecretBody,
    },
    refusals: {
      ...clinicStatusErrors,
      ...endpointUrlErrors,
      webhook_endpoint_limit_reached: 409,
      object_deleted: 409,
      concurrent_changes: 503,
    },
  },
  updateWebhookEndpoint: {
    description:
      "Changes settings of an endpoint, whether it is active or disabled. Members that are absent remain unchanged. URL, headers, rate limit, body format and asymmetric signature apply to all later attempts, also of pending deliveries. Event types, branches and order apply to later events; pending deliveries are still sent. The signing secret remains the same. Repeating the request changes nothing.",
    request: webhookEndpointChanges,
    successResponse: { status: 200, description: "The endpoint after the change.", body: endpointDetailBody },
    refusals: {
      ...clinicStatusErrors,
      ...endpointErrors,
      ...endpointUrlErrors,
      webhook_endpoint_revoked: 409,
      concurrent_changes: 503,
    },
  },
  disableWebhookEndpoint: {
    description:
      "Stops deliveries to an endpoint until it is enabled again. Pending and new deliveries are skipped, and can be replayed later. Repeating the request changes nothing.",
    successResponse: { status: 200, description: "The disabled endpoint.", body: endpointDetailBody },
    refusals: { ...endpointErrors, webhook_endpoint_revoked: 409, concurrent_changes: 503 },
  },
  enableWebhookEndpoint: {
    description:
      "Resumes deliveries to a disabled endpoint, unless the operator disabled it. With `replaySince`, the request also replays the deliveries that the endpoint missed. Otherwise, skipped deliveries are not sent again unless you replay them. Repeating the request changes nothing.",
    request: webhookEndpointEnabling,
    isBodyOptional: true,
    requestHeaders: { "Idempotency-Key": { ...idempotencyKeyHeader["Idempotency-Key"], required: false } },
    successResponse: {
      status: 200,
      description: "The active endpoint, and the replay if `replaySince` was given.",
      body: z.strictObject({ ok, endpoint: webhookEndpointDetail.schema, replay: webhookReplay.schema.optional() }),
    },
    refusals: {
      ...clinicStatusErrors,
      ...endpointErrors,
      validation_failed: 400,
      idempotency_conflict: 409,
      object_deleted: 409,
      webhook_endpoint_disabled: 409,
      webhook_endpoint_disabled_by_operator: 409,
      webhook_endpoint_revoked: 409,
      concurrent_changes: 503,
    },
  },
  revokeWebhookEndpoint: {
    description:
      "Revokes an endpoint permanently. The endpoint receives no more deliveries. Repeating the request changes nothing.",
    successResponse: {
      status: 200,
      description: "The revoked endpoint.",
      body: z.strictObject({ ok, endpoint: webhookEndpoint.schema }),
    },
    refusals: { ...endpointErrors, concurrent_changes: 503 },
  },
  rotateWebhookSecret: {
    description:
      "Issues a new signing secret. For 24 hours, deliveries are signed with both the old and the new secret.",
    successResponse: {
      status: 200,
      description: "The endpoint and its new signing secret. The secret is not shown again.",
      body: endpointWithSecretBody,
    },
    refusals: { ...endpointErrors, webhook_endpoint_revoked: 409, concurrent_rotation: 409 },
  },
  testWebhookEndpoint: {
    description:
      "Sends an event of type `endpoint.test` to this endpoint only. The event's body has `data: {test: true}` and no branch. The delivery is signed, retried and listed like any other delivery.",
    successResponse: { status: 202, description: "The test is queued.", body: queuedDeliveryBody },
    refusals: { ...endpointErrors, webhook_endpoint_disabled: 409, webhook_endpoint_revoked: 409 },
  },
  replayWebhookDelivery: {
    description:
      "Queues a failed or skipped delivery again, with the same delivery id. A delivery that was deleted after 30 days, or that waits for an earlier replay, cannot be replayed.",
    successResponse: { status: 202, description: "The replay is queued.", body: queuedDeliveryBody },
    refusals: {
      ...clinicStatusErrors,
      ...endpointErrors,
      delivery_not_replayable: 409,
      object_deleted: 409,
      data_source_unavailable: 503,
    },
  },
  replayWebhookDeliveries: {
    description:
      "Replays several deliveries of an endpoint: all failed and skipped ones that were created since a time, or up to 100 by their ids. Only ids and `statuses` select deliveries that succeeded. The replay runs in the background. A repeated request with the same idempotency key returns the first response.",
    request: webhookReplayRequest,
    requestHeaders: idempotencyKeyHeader,
    successResponse: {
      status: 202,
      description: "The replay is queued.",
      body: z.strictObject({ ok, replay: webhookReplay.schema }),
      headers: replayedHeader,
    },
    refusals: {
      ...clinicStatusErrors,
      ...endpointErrors,
      validation_failed: 400,
      idempotency_conflict: 409,
      object_deleted: 409,
      webhook_endpoint_disabled: 409,
      webhook_endpoint_revoked: 409,
      concurrent_changes: 503,
    },
  },
} as const satisfies Record<string, PartnerWrite>;
