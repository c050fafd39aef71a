import { z } from "zod";
import { TOKEN_LIFETIME } from "../auth/access-token.ts";
import { partnerAppointment } from "./appointment-record.ts";
import type { PartnerRefusals } from "./error-codes.ts";
import type { PartnerOperationId, partnerOperations } from "./operations.ts";
import { RESETS_PER_HOUR } from "./rate-limits.ts";
import {
  createAppointmentRequest,
  createWebhookEndpointRequest,
  idempotencyKey,
  tokenRequest,
} from "./request-bodies.ts";
import { sandboxRecord } from "./sandbox-record.ts";
import { webhookEndpointRecord } from "./webhook-endpoint-record.ts";

/** What a header is for, and its form. */
export interface PartnerHeader {
  description: string;
  required: boolean;
  schema: z.ZodType;
}

type Headers = Readonly<Record<string, PartnerHeader>>;

/** What an operation that changes something takes, gives and refuses. */
export interface PartnerWrite {
  description: string;
  /** The JSON body; null where none is read. */
  request: z.ZodType | null;
  /** Headers of its own. */
  requestHeaders: Headers;
  success: { status: 200 | 201 | 202; description: string; body: z.ZodType; headers: Headers };
  /** Of its own, beyond what access, rate limit and the reading of a body refuse. */
  refusals: PartnerRefusals;
}

/** Operations that command serves: all but those by GET. */
export type PartnerWriteId = {
  [Id in PartnerOperationId]: (typeof partnerOperations)[Id]["method"] extends "GET" ? never : Id;
}[PartnerOperationId];

export type PartnerReadId = Exclude<PartnerOperationId, PartnerWriteId>;

const ok = z.literal(true);
const secret = z.string().meta({ description: "`whsec_` and base64. Never shown again." });
const endpointWithSecret = z.strictObject({ ok, endpoint: webhookEndpointRecord, secret });
const queuedDelivery = z.strictObject({
  ok,
  delivery: z.strictObject({ id: z.guid(), status: z.literal("pending") }),
});
/** Of what brings something new to a clinic. */
const operational = { clinic_not_operational: 403 } as const;
const unknownEndpoint = { webhook_endpoint_not_found: 404 } as const;

/** Every operation that changes something; one that the table gains and this lacks does not compile. */
export const partnerWrites = {
  exchangeToken: {
    description:
      "Exchanges an application's credentials for an access token of 900 seconds. The body is JSON, not a form.",
    request: tokenRequest,
    requestHeaders: {},
    success: {
      status: 200,
      description: "The access token.",
      body: z.strictObject({
        access_token: z.string(),
        token_type: z.literal("Bearer"),
        expires_in: z.literal(TOKEN_LIFETIME),
        scope: z.string().meta({ description: "The scopes granted, separated by spaces." }),
      }),
      headers: {},
    },
    refusals: { invalid_request: 401, invalid_client: 401, unsupported_grant_type: 401, invalid_scope: 401 },
  },
  createPartnerAppointment: {
    description:
      "Requests an appointment. The same request with the same idempotency key gives the first answer again, however often and whenever it is repeated.",
    request: createAppointmentRequest,
    requestHeaders: {
      "Idempotency-Key": {
        description: "Names the request: 8 to 128 printable ASCII characters. Keys never expire.",
        required: true,
        schema: idempotencyKey,
      },
    },
    success: {
      status: 201,
      description: "The appointment as it was requested.",
      body: z.strictObject({ ok, appointment: partnerAppointment }),
      headers: {
        "Idempotent-Replayed": {
          description: "`true` where the answer is that of an earlier request with the key; else absent.",
          required: false,
          schema: z.literal("true"),
        },
      },
    },
    refusals: { ...operational, idempotency_conflict: 409, validation_failed: 422, too_many_changes: 503 },
  },
  resetSandbox: {
    description: `Starts the sandbox anew with the fixture of the day (UTC). Appointments made before are gone from the next request on, idempotency keys start anew, and webhook endpoints stay. Two resets on one day give the same fixture. An application has ${RESETS_PER_HOUR} resets an hour.`,
    request: null,
    requestHeaders: {},
    success: {
      status: 200,
      description: "The sandbox as it is from now on.",
      body: z.strictObject({ ok, sandbox: sandboxRecord }),
      headers: {},
    },
    refusals: { sandbox_only: 403 },
  },
  createWebhookEndpoint: {
    description: "Registers a URL that the clinic's events are delivered to.",
    request: createWebhookEndpointRequest,
    requestHeaders: {},
    success: {
      status: 201,
      description: "The endpoint, and its signing secret, shown this once.",
      body: endpointWithSecret,
      headers: {},
    },
    refusals: {
      ...operational,
      validation_failed: 400,
      invalid_destination: 400,
      unsafe_destination: 400,
      destination_not_approved: 400,
      webhook_endpoint_limit_reached: 409,
      too_many_changes: 503,
    },
  },
  revokeWebhookEndpoint: {
    description: "Ends an endpoint for good. Nothing more is delivered to it. Again changes nothing.",
    request: null,
    requestHeaders: {},
    success: {
      status: 200,
      description: "The endpoint, revoked.",
      body: z.strictObject({ ok, endpoint: webhookEndpointRecord }),
      headers: {},
    },
    refusals: { ...unknownEndpoint, too_many_changes: 503 },
  },
  rotateWebhookSecret: {
    description: "Gives an endpoint a new signing secret. The former one signs beside it for 24 hours.",
    request: null,
    requestHeaders: {},
    success: {
      status: 200,
      description: "The endpoint, and its new signing secret, shown this once.",
      body: endpointWithSecret,
      headers: {},
    },
    refusals: { ...unknownEndpoint, webhook_endpoint_revoked: 409, concurrent_rotation: 409 },
  },
  testWebhookEndpoint: {
    description:
      "Sends the endpoint, and no other, an event of type `endpoint.test` with `data: {test: true}` and no branch. It is signed, retried and listed like any other delivery.",
    request: null,
    requestHeaders: {},
    success: { status: 202, description: "The test is queued.", body: queuedDelivery, headers: {} },
    refusals: {
      ...unknownEndpoint,
      webhook_endpoint_disabled: 409,
      webhook_endpoint_revoked: 409,
      too_many_changes: 503,
    },
  },
  replayWebhookDelivery: {
    description: "Queues a delivery that failed or was skipped again, under the same delivery id.",
    request: null,
    requestHeaders: {},
    success: {
      status: 202,
      description: "The replay is queued.",
      body: queuedDelivery,
      headers: {},
    },
    refusals: { ...operational, ...unknownEndpoint, delivery_not_replayable: 409 },
  },
} as const satisfies Record<PartnerWriteId, PartnerWrite>;
