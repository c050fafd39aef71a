import { z } from "zod";
import type { OperationalEventType, WebhookEndpointEvent } from "../domain/events/partner.ts";
import { type Endpoint, endpointAggregate } from "../domain/partner/webhook-endpoint.ts";
import type { RecordedEvent } from "../eventstore/log.ts";
import { webhookEnvelope } from "./webhook-envelope.ts";

const endpointReference = z.strictObject({ id: z.guid(), url: z.url() });
const instant = z.iso.datetime({ precision: 3 });

/** Declares the body of an operational event, which belongs to no branch. */
const defineOperationalBody = <Type extends OperationalEventType, Data extends z.ZodRawShape>(type: Type, data: Data) =>
  z.strictObject({
    ...webhookEnvelope,
    type: z.literal(type),
    branchId: z.null(),
    data: z.strictObject({ endpoint: endpointReference, ...data }),
  });

export const endpointFailingBody = defineOperationalBody("endpoint.failing", {
  failingSince: instant.describe("Time of the first failed attempt since the last success."),
  failedAttempts: z.int().min(1).describe("Number of failed attempts since then."),
});
export const endpointDisabledBody = defineOperationalBody("endpoint.disabled", {
  reason: z
    .string()
    .describe("Reason as in `disabledReason` of the endpoint: `partner`, `operator`, `gone` or `no_success`."),
});
export const secretExpiringBody = defineOperationalBody("secret.expiring", {
  expiresAt: instant.describe("Time from which deliveries are no longer signed with the former secret."),
});

/** Body of an event about an application's own endpoint. */
export type OperationalBody =
  | z.infer<typeof endpointFailingBody>
  | z.infer<typeof endpointDisabledBody>
  | z.infer<typeof secretExpiringBody>;

/** An operational event and its recipients. */
export interface OperationalEvent {
  body: OperationalBody;
  /** Only endpoints of this application receive the event. */
  onlyApplicationId: string;
  /** Endpoint that does not receive the event, because the event is about a failure of this endpoint. */
  exceptEndpointId: string | null;
}

/**
 * Maximum number of an endpoint's events that are read to create the body of an operational event. Only an endpoint that
 * was changed very often has more. Reading them would delay the webhooks and requests of other partners.
 */
export const MAX_ENDPOINT_EVENTS = 1_000;

/** Returns true if an event may cause an operational event. */
export function isOperational({ type, revision }: { type: string; revision: bigint }): boolean {
  return OPERATIONAL_EVENT_TYPES.has(type) && revision < MAX_ENDPOINT_EVENTS;
}

const OPERATIONAL_EVENT_TYPES: ReadonlySet<string> = new Set<WebhookEndpointEvent["type"]>([
  "WebhookEndpointFailureReported",
  "WebhookEndpointDisabled",
  "WebhookSecretExpiryReported",
]);

/**
 * Creates the operational event for the last event of an endpoint.
 *
 * @param history the endpoint's events up to the event to publish
 * @returns undefined if partners get no operational event for the last event
 */
export function toOperationalEvent(
  history: readonly RecordedEvent<WebhookEndpointEvent>[],
): OperationalEvent | undefined {
  const lastEvent = history.at(-1);
  const endpoint = history.reduce<Endpoint | undefined>(endpointAggregate.evolve, undefined);
  if (!lastEvent || !endpoint) return undefined;
  const { id, url, clinicId, environment, applicationId } = endpoint;
  const commonFields = {
    id: lastEvent.id,
    apiVersion: "v1",
    createdAt: lastEvent.metadata.occurredAt,
    environment,
    clinicId,
    branchId: null,
  } as const;
  const reference = { id, url };
  switch (lastEvent.type) {
    case "WebhookEndpointFailureReported": {
      const { since: failingSince, failedAttempts } = lastEvent.data;
      const data = { endpoint: reference, failingSince, failedAttempts };
      const body: OperationalBody = { ...commonFields, type: "endpoint.failing", data };
      return { body, onlyApplicationId: applicationId, exceptEndpointId: id };
    }
    case "WebhookEndpointDisabled": {
      // The event may come just after a revocation, and then changes nothing.
      if (endpoint.status !== "disabled") return undefined;
      const data = { endpoint: reference, reason: lastEvent.data.reason };
      const body: OperationalBody = { ...commonFields, type: "endpoint.disabled", data };
      return { body, onlyApplicationId: applicationId, exceptEndpointId: id };
    }
    case "WebhookSecretExpiryReported": {
      const data = { endpoint: reference, expiresAt: lastEvent.data.expiresAt };
      const body: OperationalBody = { ...commonFields, type: "secret.expiring", data };
      return { body, onlyApplicationId: applicationId, exceptEndpointId: null };
    }
    default:
      return undefined;
  }
}
