import { z } from "zod";
import { notPersonal } from "../personal-data/declaration.ts";
import { completeEvents, defineCategory, type EventOf, finiteTransitions, limitExcept, summaries } from "./category.ts";
import { boundedText, environment, instant, integer, label, makeOptional, storableText, uuid } from "./fields.ts";

/**
 * Scopes of partner applications. Token, application and installation must all have the scope that a request
 * requires.
 */
export const scopes = [
  "clinic:read",
  "appointments:read",
  "appointments:write",
  "animals:link",
  "webhooks:read",
  "webhooks:write",
  "sandbox:read",
  "sandbox:write",
] as const;
export const scope = z.enum(scopes);
export type Scope = z.infer<typeof scope>;

/** Rate limit of an installation, in requests per minute. */
export const rateLimit = integer(1, 100_000);

const origin = notPersonal(boundedText(300), "origin of a server");

const applicationBound = limitExcept("CredentialRevoked", "WebhookOriginWithdrawn", "ApplicationRevoked");

/**
 * Events of a partner application in one environment, with its credentials. The application id is the OAuth client id.
 * Only an unsalted SHA-256 (hex) of each secret is stored. That is sufficient, because a secret has 256 random bits.
 * Stream id: id of the application.
 */
export const partnerApplicationStreams = defineCategory("partnerApplication", "applicationId", applicationBound, {
  ApplicationRegistered: z.object({
    applicationId: uuid,
    environment,
    name: notPersonal(label, "name of an application"),
    scopes: z.array(scope).min(1),
  }),
  CredentialIssued: z.object({
    applicationId: uuid,
    credentialId: uuid,
    secretHash: notPersonal(z.string().length(64), "hash of a random secret"),
  }),
  CredentialRevoked: z.object({ applicationId: uuid, credentialId: uuid }),
  WebhookOriginApproved: z.object({ applicationId: uuid, origin }),
  WebhookOriginWithdrawn: z.object({ applicationId: uuid, origin }),
  ApplicationRevoked: z.object({
    applicationId: uuid,
    reason: notPersonal(label.nullable(), "reason about an application"),
  }),
});
export type PartnerApplicationEvent = EventOf<typeof partnerApplicationStreams>;

/**
 * Animals whose data an installation may see. `all`: all animals of the clinic. `linked`: animals whose owners have
 * consented.
 */
export const animalAccess = z.enum(["all", "linked"]);
export type AnimalAccess = z.infer<typeof animalAccess>;

const grant = {
  scopes: z.array(scope).min(1),
  /** Permitted branches; null for all branches of the clinic. */
  branchIds: z.array(uuid).min(1).nullable().describe("ids of the permitted branches; default: all"),
  animalAccess: animalAccess.describe("animals whose data the application may see, linked by their owners or all"),
};

/**
 * Limit for the length of an installation's stream. At the limit, only changes of the rate limit are refused. Access
 * can be narrowed only a few times after each approval.
 */
const installationBound = {
  ...limitExcept("InstallationRequested", "InstallationApproved", "InstallationNarrowed", "InstallationRevoked"),
  completeTypes: ["InstallationRequested", "InstallationApproved"] as const,
};

/**
 * Events of an installation: an application's access to one clinic. Stream id: derived from the ids of application
 * and clinic by `deriveInstallationId`.
 */
export const installationStreams = defineCategory("installation", "installationId", installationBound, {
  InstallationRequested: z.object({
    installationId: uuid,
    applicationId: uuid,
    clinicId: uuid,
    scopes: z.array(scope).min(1),
  }),
  InstallationApproved: z.object({
    installationId: uuid,
    applicationId: uuid,
    clinicId: uuid,
    /**
     * User id of the clinic administrator who approved the installation; null for a sandbox, which needs no approval.
     */
    approvedBy: uuid.nullable(),
    rateLimitPerMinute: rateLimit.describe("requests per minute"),
    ...grant,
  }),
  InstallationNarrowed: z.object({ installationId: uuid, ...grant }),
  InstallationRateLimitAgreed: z.object({ installationId: uuid, rateLimitPerMinute: rateLimit }),
  InstallationRevoked: z.object({
    installationId: uuid,
    reason: notPersonal(label.nullable(), "reason about an application"),
  }),
});
export type InstallationEvent = EventOf<typeof installationStreams>;

/**
 * Types of public events, by receiver. `shared/partner-api/public-events.ts` declares the causes and the content of
 * each type.
 */
export const publicEventTypes = {
  /** Types that endpoints of a clinic receive. */
  clinic: ["appointment.created", "appointment.updated"],
  /** Types that endpoints of the application receive. */
  application: [
    "installation.approved",
    "installation.access_changed",
    "installation.revoked",
    "animal_link.withdrawn",
  ],
  /** Type that only the tested endpoint receives. */
  test: ["endpoint.test"],
  /** Types that endpoints with the setting `operationalEvents` receive. */
  operational: ["endpoint.failing", "endpoint.disabled", "secret.expiring"],
  /** Types that are only in the event feed of the partner API, not in webhooks. */
  feed: ["animal_link.created", "sandbox.reset"],
} as const;
export type PublicEventType = (typeof publicEventTypes)[keyof typeof publicEventTypes][number];

/** Types of events to which a clinic's endpoint can subscribe. */
export const webhookEventType = z.enum(publicEventTypes.clinic);

/** Types of events about an application's access, to which an endpoint of the application can subscribe. */
export const applicationEventType = z.enum(publicEventTypes.application);

/** Types of events to which an endpoint can subscribe. The permitted types depend on the owner of the endpoint. */
export const subscribedEventType = z.enum([...publicEventTypes.clinic, ...publicEventTypes.application]);
export type SubscribedEventType = z.infer<typeof subscribedEventType>;

/** Types of operational events, which concern the application's own endpoints. Every endpoint can subscribe to them. */
export const operationalEventType = z.enum(publicEventTypes.operational);
export type OperationalEventType = z.infer<typeof operationalEventType>;

const unsubscribedTypes = [...publicEventTypes.test, ...publicEventTypes.operational] as const;

/** Types of events that can be delivered to an endpoint, by owner of the endpoint. */
export const deliveredEventTypes = {
  clinic: [...publicEventTypes.clinic, ...unsubscribedTypes],
  application: [...publicEventTypes.application, ...unsubscribedTypes],
} as const;

export const deliveredEventType = z.enum([...subscribedEventType.options, ...unsubscribedTypes]);

const endpointId = uuid;
const encryptedSecret = notPersonal(storableText, "encrypted secret of an application");

/**
 * Reason why an endpoint is disabled: by the operator, by the partner, because the receiver returned 410, or after five
 * days of repeated failures.
 */
export const disabledReason = z.enum(["operator", "partner", "gone", "no_success"]);
export type DisabledReason = z.infer<typeof disabledReason>;

/** Order in which an endpoint gets events: in any order, or the events of each appointment in order. */
export const deliveryOrdering = z.enum(["none", "appointment"]);
export type DeliveryOrdering = z.infer<typeof deliveryOrdering>;

/** Format of webhook bodies: the partner API's own format, or CloudEvents in structured mode. */
export const webhookBodyFormat = z.enum(["standard", "cloudevents"]);
export type WebhookBodyFormat = z.infer<typeof webhookBodyFormat>;

/** Custom header of deliveries to an endpoint. The value is encrypted like a signing secret. */
const encryptedHeader = z.object({
  name: notPersonal(storableText.min(1), "name of a header"),
  encryptedValue: notPersonal(storableText, "encrypted secret of an application"),
});
export type EncryptedHeader = z.infer<typeof encryptedHeader>;

/** Rate limit of an endpoint, in attempts per second. */
export const attemptRate = integer(1, 1_000);

/** Owner of an endpoint. `clinicId` is null if the endpoint belongs to no clinic. */
const endpointOwner = { applicationId: uuid, clinicId: uuid.nullable(), environment };

const endpointSettings = {
  url: notPersonal(storableText.pipe(z.url()), "URL of a server"),
  events: z.array(subscribedEventType),
  /** Types of operational events that the endpoint receives. */
  operationalEvents: z.array(operationalEventType),
  /** Branches whose events the endpoint receives; null for all branches of the installation. */
  branchIds: z.array(uuid).min(1).nullable(),
  /** All custom headers of deliveries. The names are unique without regard to case. */
  headers: z.array(encryptedHeader),
  /** Null for no limit. */
  rateLimitPerSecond: attemptRate.nullable(),
  ordering: deliveryOrdering,
  bodyFormat: webhookBodyFormat,
  /** True if deliveries also have an asymmetric signature. */
  asymmetricSignature: z.boolean(),
};

/**
 * Returns the id of the test if an event is about a test, or else of the endpoint. A test has a separate stream,
 * because it does not change the endpoint.
 */
const getEndpointStreamId = ({ data }: { data: { endpointId: string; testId?: string } }) =>
  data.testId ?? data.endpointId;

/**
 * Events of a webhook endpoint. An endpoint of a clinic receives events about the clinic's appointments. An endpoint of
 * an application receives events about the application's access to all clinics. Signing secrets are encrypted as
 * compact JWE with the key's id. Stream id: id of the endpoint, or of the test.
 */
export const webhookEndpointStreams = defineCategory(
  "webhookEndpoint",
  getEndpointStreamId,
  summaries("WebhookEndpointSummarized"),
  {
    WebhookEndpointRegistered: z.object({
      endpointId,
      ...endpointOwner,
      url: endpointSettings.url,
      events: endpointSettings.events.min(1),
      secretId: uuid,
      encryptedSecret,
    }),
    WebhookSecretRotated: z.object({
      endpointId,
      secretId: uuid,
      encryptedSecret,
      /**
       * Time until which deliveries are also signed with the previous secret. If that secret was leaked, the time of
       * the rotation.
       */
      previousExpiresAt: instant,
    }),
    /** Settings of the endpoint were changed. Members that are absent did not change. */
    WebhookEndpointChanged: z.object({
      endpointId,
      ...makeOptional(endpointSettings),
    }),
    WebhookEndpointDisabled: z.object({ endpointId, reason: disabledReason }),
    WebhookEndpointEnabled: z.object({ endpointId }),
    WebhookEndpointRevoked: z.object({ endpointId }),
    /**
     * A test of the endpoint was requested. A test event is delivered only to this endpoint, with `testId` as its
     * public event id.
     */
    WebhookEndpointTested: z.object({ endpointId, applicationId: uuid, testId: uuid }),
    /** The endpoint has been failing since the given time. Recorded at most once per endpoint and day (UTC). */
    WebhookEndpointFailureReported: z.object({ endpointId, since: instant, failedAttempts: z.int().min(1) }),
    /** A previous signing secret will expire soon. Recorded once per secret. */
    WebhookSecretExpiryReported: z.object({ endpointId, secretId: uuid, expiresAt: instant }),
    /** Summary of the endpoint, without the signing secret; see `Aggregate.summarize`. Does not change the state. */
    WebhookEndpointSummarized: z.object({
      endpointId,
      ...endpointOwner,
      ...endpointSettings,
      status: z.enum(["active", "disabled", "revoked"]),
      disabledReason: disabledReason.nullable(),
      enabledAt: instant,
      createdAt: instant,
      updatedAt: instant,
    }),
  },
);
export type WebhookEndpointEvent = EventOf<typeof webhookEndpointStreams>;

const endpointReservation = z.object({ endpointId, takenAt: instant });
export type EndpointReservation = z.infer<typeof endpointReservation>;

/**
 * Reservations in an application's quota of webhook endpoints. There is one quota at each clinic, and one for endpoints
 * without a clinic. Each event contains all current reservations, possibly also those of revoked endpoints. Stream id:
 * id of the installation, or of the application for endpoints without a clinic.
 */
export const webhookEndpointPlacesStreams = defineCategory("webhookEndpointPlaces", "ownerId", completeEvents, {
  WebhookEndpointPlaceTaken: z.object({ ownerId: uuid, places: z.array(endpointReservation).min(1) }),
});
export type WebhookEndpointPlacesEvent = EventOf<typeof webhookEndpointPlacesStreams>;

/** Statuses of deliveries that a replay can select. */
export const replayableStatus = z.enum(["failed", "skipped", "delivered"]);
export type ReplayableStatus = z.infer<typeof replayableStatus>;

/** Outcome of a replay: completed, or stopped because the endpoint was no longer active. */
const replayOutcome = z.enum(["completed", "stopped"]);
export type ReplayOutcome = z.infer<typeof replayOutcome>;

const replayCount = z.int().min(0);

/**
 * Events of a request to replay an endpoint's deliveries. Deliveries and attempts are database rows, not events. Stream
 * id: derived by `deriveWebhookReplayId`, or by `deriveDeliveryReplayId` if a partner requested the replay of one
 * delivery.
 */
export const webhookReplayStreams = defineCategory("webhookReplay", "replayId", finiteTransitions, {
  WebhookReplayRequested: z.object({
    replayId: uuid,
    endpointId,
    ...endpointOwner,
    /** Lower limit of the creation times of the selected deliveries, inclusive; null if `deliveryIds` selects them. */
    since: instant.nullable(),
    /** Upper limit of the creation times of the selected deliveries, exclusive. */
    until: instant,
    statuses: z.array(replayableStatus).min(1),
    /** Ids of the selected deliveries; null if `since` and `until` select them. */
    deliveryIds: z.array(uuid).min(1).nullable(),
    /** SHA-256 (hex) of the requested values. A repeated request has the same hash. */
    requestHash: notPersonal(z.string().length(64), "hash of a request"),
  }),
  WebhookReplayCompleted: z.object({
    replayId: uuid,
    endpointId,
    outcome: replayOutcome,
    replayedCount: replayCount,
    notReplayedCount: replayCount,
  }),
});
export type WebhookReplayEvent = EventOf<typeof webhookReplayStreams>;
