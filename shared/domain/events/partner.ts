import { z } from "zod";
import { defineCategory, type EventOf } from "./category.ts";
import { environment, instant, label, uuid } from "./fields.ts";

/** What an application may be allowed to do; a request needs the token's and the installation's. */
export const scopes = [
  "clinic:read",
  "appointments:read",
  "appointments:write",
  "webhooks:read",
  "webhooks:write",
  "sandbox:read",
  "sandbox:write",
] as const;
export const scope = z.enum(scopes);
export type Scope = z.infer<typeof scope>;

/** Requests a minute, agreed for an application at a clinic. */
export const rateLimit = z.int().min(1).max(100_000);

/**
 * A partner's application in one environment, with its credentials. The application id is the OAuth client id.
 * Secrets have 256 random bits, so a plain SHA-256 (hex) of one is kept, never the secret. Stream id: the application's.
 */
export const partnerApplicationCategory = defineCategory("partnerApplication", {
  ApplicationRegistered: z.object({
    applicationId: uuid,
    environment,
    name: label,
    scopes: z.array(scope).min(1),
  }),
  CredentialIssued: z.object({ applicationId: uuid, credentialId: uuid, secretHash: z.string().length(64) }),
  CredentialRevoked: z.object({ applicationId: uuid, credentialId: uuid }),
  WebhookOriginApproved: z.object({ applicationId: uuid, origin: z.string().max(300) }),
  WebhookOriginWithdrawn: z.object({ applicationId: uuid, origin: z.string().max(300) }),
  ApplicationRevoked: z.object({ applicationId: uuid, reason: label.nullable() }),
});
export type PartnerApplicationEvent = EventOf<typeof partnerApplicationCategory>;

const grant = {
  scopes: z.array(scope).min(1),
  /** Null: every branch of the clinic. */
  branchIds: z.array(uuid).min(1).nullable(),
};

/** An application's access to one clinic. Stream id: derived from both, see `installationId`. */
export const installationCategory = defineCategory("installation", {
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
    /** The clinic administrator who approved; null for a sandbox, which is approved from the start. */
    approvedBy: uuid.nullable(),
    rateLimitPerMinute: rateLimit,
    ...grant,
  }),
  InstallationNarrowed: z.object({ installationId: uuid, ...grant }),
  InstallationRateLimitAgreed: z.object({ installationId: uuid, rateLimitPerMinute: rateLimit }),
  InstallationRevoked: z.object({ installationId: uuid, reason: label.nullable() }),
});
export type InstallationEvent = EventOf<typeof installationCategory>;

export const webhookEventType = z.enum(["appointment.created", "appointment.updated"]);
export type WebhookEventType = z.infer<typeof webhookEventType>;

/** What a delivery may be of: an event that the endpoint asked for, or a test. */
export const deliveredType = z.enum([...webhookEventType.options, "endpoint.test"]);

const endpointId = uuid;

/**
 * Where an application wants a clinic's events delivered. Secrets are held encrypted (JWE compact, key by id).
 * Stream id: the endpoint's.
 */
export const webhookEndpointCategory = defineCategory("webhookEndpoint", {
  WebhookEndpointRegistered: z.object({
    endpointId,
    applicationId: uuid,
    clinicId: uuid,
    environment,
    url: z.url(),
    events: z.array(webhookEventType).min(1),
    secretId: uuid,
    encryptedSecret: z.string(),
  }),
  WebhookSecretRotated: z.object({
    endpointId,
    secretId: uuid,
    encryptedSecret: z.string(),
    /** Until then the former secret signs beside the new one; equal to the rotation's time where it leaked. */
    previousExpiresAt: instant,
  }),
  WebhookEndpointDisabled: z.object({ endpointId, reason: z.enum(["operator", "gone", "no_success"]) }),
  WebhookEndpointEnabled: z.object({ endpointId }),
  WebhookEndpointRevoked: z.object({ endpointId }),
  /** A test was asked for: it is delivered like an event, to this endpoint alone. Its public event has the test's id. */
  WebhookEndpointTested: z.object({ endpointId, testId: uuid }),
});
export type WebhookEndpointEvent = EventOf<typeof webhookEndpointCategory>;

const endpointPlace = z.object({ endpointId, takenAt: instant });
export type EndpointPlace = z.infer<typeof endpointPlace>;

/**
 * Which endpoints an application has at a clinic, so that there are never too many. Each event tells all there is to
 * know; revoked endpoints may be among them. Stream id: the installation's.
 */
export const webhookEndpointPlacesCategory = defineCategory("webhookEndpointPlaces", {
  WebhookEndpointPlaceTaken: z.object({ installationId: uuid, places: z.array(endpointPlace).min(1) }),
});
export type WebhookEndpointPlacesEvent = EventOf<typeof webhookEndpointPlacesCategory>;

const deliveryId = uuid;

/** Where the event that a delivery tells of stands, so that the delivery can be made again when it is no longer kept. */
const source = z.object({ stream: z.string(), revision: z.int().min(0) });
export type DeliverySource = z.infer<typeof source>;

/**
 * The facts of a delivery's life that decide about a replay; its attempts are rows, not events.
 * Stream id: the delivery's.
 */
export const webhookDeliveryCategory = defineCategory("webhookDelivery", {
  WebhookDeliveryFailed: z.object({
    ...{ deliveryId, endpointId, attempts: z.int().min(0) },
    source: source.optional(),
  }),
  WebhookDeliverySkipped: z.object({ deliveryId, endpointId, source: source.optional() }),
  WebhookDeliveryReplayRequested: z.object({ deliveryId, endpointId }),
  /** It was to be replayed, but is no longer kept and cannot be made again. */
  WebhookDeliveryExpired: z.object({ deliveryId, endpointId }),
});
export type WebhookDeliveryEvent = EventOf<typeof webhookDeliveryCategory>;
