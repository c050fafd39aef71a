import { z } from "zod";
import { TOKEN_LIFETIME_SECONDS } from "../auth/access-token.ts";
import type { PartnerRefusals } from "./error-codes.ts";
import type { PartnerOperationId, partnerOperations } from "./operations.ts";
import { MAX_EXCHANGES_PER_MINUTE, MAX_RESETS_PER_HOUR, MAX_WRONG_CODES_PER_HOUR } from "./rate-limits.ts";
import {
  publicAppointment,
  publicLink,
  publicSandbox,
  webhookEndpoint,
  webhookEndpointDetail,
  webhookReplay,
} from "./records.ts";
import {
  animalLinkRequest,
  appointmentMove,
  appointmentRequest,
  appointmentTransition,
  idempotencyKey,
  linkWithdrawal,
  sandboxAccess,
  tokenRequest,
  webhookEndpointChanges,
  webhookEndpointEnabling,
  webhookEndpointRequest,
  webhookReplayRequest,
} from "./request-bodies.ts";

/** Ids of the operations that the command service serves: all operations except GET. */
export type PartnerWriteId = {
  [Id in PartnerOperationId]: (typeof partnerOperations)[Id]["method"] extends "GET" ? never : Id;
}[PartnerOperationId];

export type PartnerReadId = Exclude<PartnerOperationId, PartnerWriteId>;

interface PartnerHeader {
  description: string;
  required: boolean;
  schema: z.ZodType;
}

type Headers = Readonly<Record<string, PartnerHeader>>;

/** Declaration of the request, response and errors of an operation that changes data. */
export interface PartnerWrite {
  description: string;
  /** Schema of the JSON body; undefined if the operation reads no body. */
  request?: z.ZodType;
  /** If true, a request may have no body. */
  isBodyOptional?: true;
  /** Errors of requests with a form instead of JSON; undefined if the operation accepts no form. */
  formRefusals?: PartnerRefusals;
  requestHeaders?: Headers;
  successResponse: { status: 200 | 201 | 202; description: string; body: z.ZodType; headers?: Headers };
  /** Errors of this operation, in addition to the errors of access check, rate limit and body parsing. */
  refusals: PartnerRefusals;
}

const ok = z.literal(true);

const idempotencyKeyHeader = {
  "Idempotency-Key": {
    description:
      "Key of your choice that identifies this request: 8 to 128 printable ASCII characters. Keys never expire.",
    required: true,
    schema: idempotencyKey,
  },
} satisfies Headers;

const replayedHeader: Headers = {
  "Idempotent-Replayed": {
    description:
      "`true` if this response repeats the response to an earlier request with the same key. Otherwise absent.",
    required: false,
    schema: z.literal("true"),
  },
};

const clinicStatusErrors = { clinic_not_operational: 403 } as const;
const changeErrors = { ...clinicStatusErrors, object_deleted: 409, concurrent_changes: 503 } as const;

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

/** Operations that change webhook endpoints of a clinic or of the application. */
const endpointWrites = {
  createWebhookEndpoint: {
    description: "Registers a URL that receives events of the clinic, or of the application.",
    request: webhookEndpointRequest,
    successResponse: {
      status: 201,
      description: "The endpoint and its signing secret. The secret is not shown again.",
      body: endpointWithSecretBody,
    },
    refusals: { ...endpointUrlErrors, webhook_endpoint_limit_reached: 409, ...changeErrors },
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
      ...endpointErrors,
      validation_failed: 400,
      idempotency_conflict: 409,
      webhook_endpoint_disabled: 409,
      webhook_endpoint_disabled_by_operator: 409,
      webhook_endpoint_revoked: 409,
      ...changeErrors,
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
      ...endpointErrors,
      validation_failed: 400,
      idempotency_conflict: 409,
      webhook_endpoint_disabled: 409,
      webhook_endpoint_revoked: 409,
      ...changeErrors,
    },
  },
} as const satisfies Record<string, PartnerWrite>;

const locationHeader: Headers = {
  Location: {
    description: "Path of the appointment, for example `/sandbox/v1/appointments/<id>`.",
    required: true,
    schema: z.string(),
  },
};
const endedLinkResponse = {
  status: 200,
  description: "The link has ended.",
  body: z.strictObject({ ok, link: z.strictObject({ id: z.guid() }) }),
} as const;
const appointmentBody = z.strictObject({ ok, appointment: publicAppointment.schema });
const changedAppointmentResponse = {
  status: 200,
  description: "The appointment after the change.",
  body: appointmentBody,
} as const;
const sandboxAppointmentErrors = {
  ...changeErrors,
  appointment_not_found: 404,
  fixture_appointment: 409,
  illegal_transition: 409,
  validation_failed: 422,
  data_source_unavailable: 503,
} as const;

/**
 * All operations that change data. The code compiles only if every operation of `partnerOperations` except GET is
 * listed.
 */
export const partnerWrites = {
  exchangeToken: {
    description: `Exchanges an application's credentials for an access token that is valid for 900 seconds. Send JSON, or a form as in RFC 6749 with the same members. A form needs no member \`environment\`, and its credentials can be in an HTTP Basic header instead. If the parameters or credentials are invalid, a JSON request returns 401. A form request returns the status that RFC 6749 defines: 401 for \`invalid_client\`, otherwise 400. Each client id can exchange at most ${MAX_EXCHANGES_PER_MINUTE} tokens per minute from one IP address.`,
    request: tokenRequest,
    formRefusals: { invalid_request: 400, invalid_client: 401, unsupported_grant_type: 400, invalid_scope: 400 },
    successResponse: {
      status: 200,
      description: "The access token.",
      body: z.strictObject({
        access_token: z.string(),
        token_type: z.literal("Bearer"),
        expires_in: z.literal(TOKEN_LIFETIME_SECONDS),
        scope: z.string().meta({ description: "Scopes of the token, separated by spaces." }),
      }),
    },
    refusals: { invalid_request: 401, invalid_client: 401, unsupported_grant_type: 401, invalid_scope: 401 },
  },
  createPartnerAppointment: {
    description:
      "Creates an appointment with status `requested`. With `resourceId` or `resourceType`, it books a free time: the resource is reserved before the response, and the status is `confirmed` if the clinic confirms bookings at once. If the time is taken, the response is 422 `slot_taken`, and a later request with the same key tries again. A repeated request with the same idempotency key returns the first response, as long as your application has access to the branch and the animal.",
    request: appointmentRequest,
    requestHeaders: idempotencyKeyHeader,
    successResponse: {
      status: 201,
      description: "The appointment as it was created.",
      body: appointmentBody,
      headers: { ...replayedHeader, ...locationHeader },
    },
    refusals: {
      entitlement_required: 403,
      idempotency_conflict: 409,
      validation_failed: 422,
      insufficient_consent: 422,
      slot_taken: 422,
      data_source_unavailable: 503,
      ...changeErrors,
    },
  },
  linkAnimal: {
    description: `Redeems a code with which an animal's owner consents to share the animal with your application. Each code can be redeemed once. Repeating the request returns the same link. After ${MAX_WRONG_CODES_PER_HOUR} wrong codes in an hour, requests of the installation return 429.`,
    request: animalLinkRequest,
    successResponse: {
      status: 201,
      description: "The link to the animal.",
      body: z.strictObject({ ok, link: publicLink.schema }),
    },
    refusals: { validation_failed: 422, link_code_invalid: 422, data_source_unavailable: 503, ...changeErrors },
  },
  endAnimalLink: {
    description:
      "Ends a link, for example because the owner has closed their account with you. Only a new code can link the animal again.",
    successResponse: endedLinkResponse,
    refusals: { animal_link_not_found: 404, object_deleted: 409, concurrent_changes: 503 },
  },
  withdrawSandboxLink: {
    description:
      "Ends a link of your application in its sandbox, as the animal's owner or the clinic can in production. Your application receives `animal_link.withdrawn`.",
    request: linkWithdrawal,
    successResponse: endedLinkResponse,
    refusals: {
      animal_link_not_found: 404,
      object_deleted: 409,
      validation_failed: 422,
      concurrent_changes: 503,
    },
  },
  changeSandboxAccess: {
    description:
      "Changes which branches and animals of its sandbox your application sees, as operator and clinic can in production. Less access is `installation.access_changed`, any other change `installation.approved`. The state of the sandbox always contains all animals. A reset keeps the access.",
    request: sandboxAccess,
    successResponse: {
      status: 200,
      description: "The access after the change.",
      body: z.strictObject({ ok, access: sandboxAccess.extend({ branchIds: z.array(z.guid()).nullable() }) }),
    },
    refusals: { validation_failed: 422, ...changeErrors },
  },
  resetSandbox: {
    description: `Resets the sandbox to the fixture data of today (UTC). Deletes existing appointments and their idempotency keys, effective from the next request, ends the links, and keeps webhook endpoints. Two resets on the same day give the same data. An application can reset its sandbox at most ${MAX_RESETS_PER_HOUR} times per hour.`,
    successResponse: {
      status: 200,
      description: "The sandbox after the reset.",
      body: z.strictObject({ ok, sandbox: publicSandbox.schema }),
    },
    refusals: { object_deleted: 409, concurrent_changes: 503 },
  },
  changeSandboxAppointmentStatus: {
    description:
      "Changes the status of an appointment that your application has created in its sandbox, as the clinic's staff would in production. Your endpoints receive `appointment.updated`. Appointments of the fixture cannot be changed.",
    request: appointmentTransition,
    successResponse: changedAppointmentResponse,
    refusals: sandboxAppointmentErrors,
  },
  rescheduleSandboxAppointment: {
    description:
      "Moves a requested or confirmed appointment that your application has created in its sandbox, as the clinic's staff would in production. Its resources move with it, if their new places are free. Your endpoints receive `appointment.updated`. Appointments of the fixture cannot be changed.",
    request: appointmentMove,
    successResponse: changedAppointmentResponse,
    refusals: { ...sandboxAppointmentErrors, too_many_changes: 409, slot_taken: 422 },
  },
  ...endpointWrites,
} as const satisfies Record<PartnerWriteId, PartnerWrite>;
