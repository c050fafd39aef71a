import { z } from "zod";
import { appointmentStatuses } from "../domain/appointment/appointment.ts";
import { isLinkCode, LINK_CODE_LENGTH } from "../domain/clinic/link-code.ts";
import { appointmentStreams, detailDefaults, scheduledAt } from "../domain/events/appointment.ts";
import { withdrawalParty } from "../domain/events/consent.ts";
import { boundedText, environment, instant, notes, uuid } from "../domain/events/fields.ts";
import {
  animalAccess,
  applicationEventType,
  attemptRate,
  deliveryOrdering,
  operationalEventType,
  replayableStatus,
  subscribedEventType,
  webhookBodyFormat,
  webhookEventType,
} from "../domain/events/partner.ts";
import { MAX_HEADERS } from "../domain/partner/change-endpoint.ts";
import { SANDBOX_LINK_CODES } from "../domain/partner/sandbox-link-code.ts";
import { MAX_URL_LENGTH } from "../webhooks/destination.ts";
import { animalAccessText, asymmetricSignatureText, bodyFormatText, orderingText } from "./records.ts";

/**
 * Body of a token request. The schema accepts any text, because the operation reports each invalid member with its
 * own error code.
 */
export const tokenRequest = z.object({
  client_id: z.string().meta({ format: "uuid", description: "Id of the application." }),
  client_secret: z
    .string()
    .meta({ description: "Secret of a credential. It is shown once, when the credential is issued." }),
  grant_type: z.string().meta({ const: "client_credentials" }),
  environment: environment.meta({ description: "Environment. It must match the base URL." }),
  scope: z.string().optional().meta({
    description: "Scope names, separated by spaces. If absent or empty, the token has all scopes of the application.",
  }),
});

export const appointmentRequest = z.strictObject({
  branchId: uuid.meta({
    description: "Id of the appointment's branch. The installation must cover this branch.",
  }),
  animalId: uuid.meta({ description: "Id of the animal. The animal must belong to the clinic." }),
  scheduledAt: scheduledAt.meta({
    format: "date-time",
    description: "Start of the appointment. It must be in the future and have a UTC offset.",
  }),
  notes: notes.meta({ maxLength: 2000, description: "Free text for the clinic." }).optional(),
  resourceId: uuid
    .optional()
    .meta({ description: "Books a place of this resource. The start must be one of its free times." }),
  resourceType: boundedText(60)
    .optional()
    .meta({ description: "Books a place of any resource of this type at the branch. Excludes `resourceId`." }),
  durationMinutes: appointmentStreams.events.AppointmentRequested.shape.durationMinutes
    .optional()
    .meta({ description: `Duration in minutes. Default: ${detailDefaults.durationMinutes}.` }),
});

export const appointmentTransition = z.strictObject({
  to: z.enum(appointmentStatuses).exclude(["requested"]).meta({
    description:
      "New status. If the appointment already has this status, nothing changes. `no_show` is possible before the appointment starts.",
  }),
});

export const appointmentMove = z.strictObject({
  scheduledAt: scheduledAt.meta({
    format: "date-time",
    description: "New start of the appointment. It must be in the future and have a UTC offset.",
  }),
  durationMinutes: appointmentStreams.events.AppointmentRescheduled.shape.durationMinutes
    .optional()
    .meta({ description: "New duration in minutes. If it is absent, the duration remains unchanged." }),
});

export const animalLinkRequest = z.strictObject({
  code: z
    .string()
    .min(1)
    // A longer text is not normalized, because the time grows with the square of the length.
    .max(100, { abort: true })
    .refine(isLinkCode, `must have ${LINK_CODE_LENGTH} letters and digits, without the letter U`)
    .meta({
      description: `Code from the animal's owner: ${LINK_CODE_LENGTH} letters and digits. Case and all other characters do not matter. Other text returns 422 \`validation_failed\` and does not count as a wrong code. In the sandbox, \`${SANDBOX_LINK_CODES.valid}\` and, for a consent that covers only reading, \`${SANDBOX_LINK_CODES.readOnly}\` can be redeemed once after each reset; \`${SANDBOX_LINK_CODES.expired}\` has expired, and \`${SANDBOX_LINK_CODES.used}\` is used.`,
    }),
});

export const linkWithdrawal = z.strictObject({
  requestedBy: withdrawalParty
    .exclude(["application"])
    .meta({ description: "Party that withdraws the consent: the owner of the animal, or the clinic." }),
});

export const sandboxAccess = z.strictObject({
  animalAccess: animalAccess.meta({ description: animalAccessText }),
  branchIds: z
    .array(uuid)
    .min(1, "must contain at least one branch; null selects all branches")
    .max(500)
    .transform((ids) => [...new Set(ids)])
    .nullable()
    .meta({ description: "Branches that the installation covers. Null selects all branches." }),
});

/**
 * Schema of the Idempotency-Key header. A key contains printable ASCII, including spaces. Quotes are part of the key,
 * although they are delimiters in HTTP structured fields.
 */
export const idempotencyKey = z
  .string()
  .regex(/^[\x20-\x7e]{8,128}$/, "must be 8 to 128 printable ASCII characters")
  .meta({ minLength: 8, maxLength: 128 });

// A longer URL is not parsed: the time to normalize its host grows with the square of the length.
const endpointUrl = z.string().max(MAX_URL_LENGTH).meta({
  format: "uri",
  description:
    "HTTPS URL of a public host. In production, the operator must first approve the URL's origin. If the operator withdraws the approval, deliveries stay `pending` until the origin is approved again.",
});

const defineEndpointRequest = <EventType extends z.ZodType>(eventType: EventType) =>
  z.strictObject({
    url: endpointUrl,
    events: z
      .array(eventType)
      .min(1, "must contain at least one event type")
      .meta({ description: "Event types to deliver." }),
  });

/** Schema for endpoints of a clinic or of the application, only for the API reference. */
export const webhookEndpointRequest = defineEndpointRequest(subscribedEventType);
export const clinicEndpointRequest = defineEndpointRequest(webhookEventType);
export const applicationEndpointRequest = defineEndpointRequest(applicationEventType);

/** Names of headers that HTTP, the HTTP client or the service sets. In lower case. */
const RESERVED_NAMES = new Set([
  // Message framing and hop-by-hop headers (RFC 9110, RFC 9112)
  ...["connection", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"],
  // Set by the sender
  ...["accept-encoding", "date", "user-agent", "traceparent", "tracestate", "baggage"],
  // Set by proxies. Receivers may trust them.
  ...["forwarded", "via", "x-real-ip"],
]);

/** Matches prefixes of further reserved header names, in lower case. */
const RESERVED_PREFIX = /^(content|proxy|webhook|x-forwarded)-/;

/** Matches the branded headers of deliveries, such as `X-SERVICE-Signature`. The brand is a setting. */
const BRANDED_NAME = /^x-.+-(signature|timestamp|delivery-id)$/;

/**
 * Returns true if partners may not set the header.
 *
 * @param name name in any case
 */
function isReserved(name: string): boolean {
  const lowerCaseName = name.toLowerCase();
  return RESERVED_NAMES.has(lowerCaseName) || RESERVED_PREFIX.test(lowerCaseName) || BRANDED_NAME.test(lowerCaseName);
}

export const customHeaderName = z
  .string()
  .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/, "must be a header name with at most 64 characters")
  .refine((name) => !isReserved(name), "is reserved for the service");

/** Schema of the value of a custom header. Messages never contain the value, because it is a secret. */
export const customHeaderValue = z
  .string()
  .regex(
    /^[\x21-\x7e]([\x20-\x7e]{0,1022}[\x21-\x7e])?$/,
    "must be 1 to 1024 printable ASCII characters without outer spaces",
  );

const customHeaders = z
  .record(customHeaderName, customHeaderValue.nullable())
  .refine(hasDistinctNames, "must not contain a name twice, regardless of case")
  .nullable()
  .meta({
    description: `Custom headers of all requests to the endpoint, with secret values that are never returned. A value of null removes the header; null instead of the object removes all headers. Headers that are absent remain unchanged. An endpoint has at most ${MAX_HEADERS} custom headers. If the origin of the URL changes, all custom headers that are not in the same request are removed. Headers that the service or HTTP itself uses are not allowed: \`Host\`, \`User-Agent\`, \`Content-*\`, \`webhook-*\`, hop-by-hop headers, forwarding headers, trace headers and the service's own headers.`,
  });

function hasDistinctNames(headers: Record<string, unknown>): boolean {
  const names = Object.keys(headers);
  return new Set(names.map((name) => name.toLowerCase())).size === names.length;
}

const defineChangedEvents = <EventType extends z.ZodType>(eventType: EventType) =>
  z.array(eventType).optional().meta({
    description: "Event types to deliver. The list may be empty if the endpoint receives operational events.",
  });

/** Schema of the changes to an endpoint of a clinic or of the application. Absent members remain unchanged. */
export const webhookEndpointChanges = z.strictObject({
  url: endpointUrl.optional(),
  events: defineChangedEvents(subscribedEventType),
  operationalEvents: z.array(operationalEventType).optional().meta({
    description:
      "Types of events about all endpoints of the application at this clinic, or of all endpoints that belong to the application. An endpoint never receives `endpoint.failing` and `endpoint.disabled` about itself.",
  }),
  branchIds: z
    .array(uuid)
    .min(1, "must contain at least one branch; null selects all branches")
    .max(500)
    .nullable()
    .optional()
    .meta({
      description:
        "Branches whose events the endpoint receives. The installation must cover them. Null selects all branches that the installation covers.",
    }),
  headers: customHeaders.optional(),
  rateLimitPerSecond: attemptRate
    .nullable()
    .optional()
    .meta({ description: "Maximum number of attempts per second. Null removes the limit." }),
  ordering: deliveryOrdering.optional().meta({ description: orderingText }),
  bodyFormat: webhookBodyFormat.optional().meta({ description: bodyFormatText }),
  asymmetricSignature: z.boolean().optional().meta({ description: asymmetricSignatureText }),
});

export const clinicEndpointChanges = webhookEndpointChanges.extend({ events: defineChangedEvents(webhookEventType) });

/**
 * Schema of the changes to an endpoint of the application. Such an endpoint receives no events of branches or
 * appointments. It has no asymmetric signatures, because the events do not name the application. A partner could
 * forward its signed events to another partner, which would accept them.
 */
export const applicationEndpointChanges = webhookEndpointChanges
  .omit({ branchIds: true, ordering: true, asymmetricSignature: true })
  .extend({ events: defineChangedEvents(applicationEventType) });

const MAX_DELIVERY_IDS = 100;

export const webhookReplayRequest = z
  .strictObject({
    since: instant.optional().meta({
      format: "date-time",
      description: "Replays deliveries that were created at this time or later.",
    }),
    until: instant.optional().meta({
      format: "date-time",
      description: "Replays deliveries that were created before this time. Default: the time of the request.",
    }),
    statuses: z.array(replayableStatus).min(1, "must contain at least one status").optional().meta({
      description:
        "Statuses of the deliveries to replay. Default: `failed` and `skipped`. `delivered` sends events again that your receiver has accepted.",
    }),
    deliveryIds: z
      .array(uuid)
      .min(1, "must contain at least one id")
      .max(MAX_DELIVERY_IDS)
      .optional()
      .meta({
        description: `Replays these deliveries, at most ${MAX_DELIVERY_IDS}, if they are failed, skipped or delivered. Cannot be combined with other fields.`,
      }),
  })
  .superRefine(({ since, until, statuses, deliveryIds }, context) => {
    const addIssue = (path: string, message: string) => context.addIssue({ code: "custom", path: [path], message });
    if (deliveryIds === undefined) {
      if (since === undefined) addIssue("since", "is missing; give either since or deliveryIds");
      else if (until !== undefined && until <= since) addIssue("until", "must be later than since");
      return;
    }
    for (const [path, value] of Object.entries({ since, until, statuses }))
      if (value !== undefined) addIssue(path, "cannot be combined with deliveryIds");
  });
/** Optional body of a request that enables an endpoint. */
export const webhookEndpointEnabling = z.strictObject({
  replaySince: instant.meta({
    format: "date-time",
    description:
      "Replays the failed and skipped deliveries that were created at this time or later. The request then needs an `Idempotency-Key`.",
  }),
});
export type WebhookReplayRequest = z.infer<typeof webhookReplayRequest>;
