import { z } from "zod";
import { environment, uuid } from "../../shared/domain/events/fields.ts";
import { deliveredType } from "../../shared/domain/events/partner.ts";
import type { WebhookBody } from "../../shared/partner-api/webhook-body.ts";

const place = z.string().regex(/^\d+$/, "must be a whole number").transform(BigInt);

const routing = z.looseObject({
  id: uuid,
  type: deliveredType,
  environment,
  clinicId: uuid,
  branchId: uuid.nullable(),
});

/** The body is passed on unchanged, including the order of its fields. */
const body = z.custom<WebhookBody>((value) => routing.safeParse(value).success, "must be a webhook body");

/** Message from the relay to the dispatchers, over JetStream. Bigints are sent as texts. */
export const relayMessage = z.discriminatedUnion("kind", [
  /** A public event. */
  z.object({
    kind: z.literal("event"),
    /** Position of the domain event in the log, then its stream and its revision there. */
    position: place,
    stream: z.string(),
    revision: place,
    correlationId: uuid,
    /** The only endpoint that gets the event; null for all that subscribed to its type. */
    onlyEndpointId: uuid.nullable().default(null),
    body,
  }),
  /** A request of a partner to replay a delivery. */
  z.object({
    kind: z.literal("replay"),
    position: place,
    /** Id of the event that requests the replay. */
    requestId: uuid,
    correlationId: uuid,
    deliveryId: uuid,
    endpointId: uuid,
    /** From the metadata of the request, if present. */
    clinicId: uuid.nullable().default(null),
    environment: environment.nullable().default(null),
  }),
]);
export type RelayMessage = z.input<typeof relayMessage>;
export type EventMessage = Extract<z.output<typeof relayMessage>, { kind: "event" }>;
export type ReplayMessage = Extract<z.output<typeof relayMessage>, { kind: "replay" }>;

/** A message, its id for deduplication, and its subject below the prefix of the stream. */
export interface OutgoingMessage {
  id: string;
  subject: string;
  message: RelayMessage;
}

/**
 * Creates the message of a public event.
 *
 * @param onlyEndpointId the only endpoint that gets the event. If absent, all that subscribed to its type
 */
export function eventMessage(
  at: { position: bigint; stream: string; revision: bigint; correlationId: string },
  body: WebhookBody,
  onlyEndpointId?: string,
): OutgoingMessage {
  return {
    id: body.id,
    subject: `${body.environment}.${body.type}`,
    message: {
      kind: "event",
      position: String(at.position),
      stream: at.stream,
      revision: String(at.revision),
      correlationId: at.correlationId,
      ...(onlyEndpointId !== undefined && { onlyEndpointId }),
      body,
    },
  };
}
