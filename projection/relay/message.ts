import { z } from "zod";
import { environment, uuid } from "../../shared/domain/events/fields.ts";
import { deliveredEventType } from "../../shared/domain/events/partner.ts";
import type { WebhookBody } from "../../shared/partner-api/feed-event.ts";

const wholeNumber = z.string().regex(/^\d+$/, "must be a whole number").transform(BigInt);

const routingFields = z.looseObject({
  id: uuid,
  type: deliveredEventType,
  environment,
  clinicId: uuid.nullable(),
  branchId: uuid.nullable(),
  data: z.looseObject({ appointment: z.looseObject({ id: uuid, animalId: uuid.nullable() }).optional() }),
});

/** The dispatcher sends the body unchanged, including the order of its fields. */
const bodySchema = z.custom<WebhookBody>((value) => routingFields.safeParse(value).success, "must be a webhook body");

/** Version of the messages. A process leaves messages of a later version to processes of a newer release. */
export const MESSAGE_VERSION = 1;

/** Message from the relay to the dispatchers, over JetStream. Bigints are sent as strings. */
export const relayMessageSchema = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("event"),
    /** Position of the domain event in the log. Stream and revision also identify the domain event. */
    position: wholeNumber,
    stream: z.string(),
    revision: wholeNumber,
    correlationId: uuid,
    /**
     * The only endpoint that receives the event. If null, all endpoints that subscribed to the event's type receive the
     * event.
     */
    onlyEndpointId: uuid.nullable().default(null),
    /** The only application whose endpoints receive the event. If null, endpoints of all applications receive it. */
    onlyApplicationId: uuid.nullable().default(null),
    /** Endpoint that does not receive the event; null if the event excludes no endpoint. */
    exceptEndpointId: uuid.nullable().default(null),
    /** Public event before this event in the same stream. Null for the first event, or if the order does not matter. */
    previousEvent: z.object({ id: uuid, position: wholeNumber }).nullable().default(null),
    body: bodySchema,
  }),
  /** A request of a partner to replay a delivery. */
  z.object({
    kind: z.literal("replay"),
    position: wholeNumber,
    /** Id of the event that requests the replay. */
    requestId: uuid,
    correlationId: uuid,
    deliveryId: uuid,
    endpointId: uuid,
    /** Clinic id from the metadata of the request event, if present. */
    clinicId: uuid.nullable().default(null),
    environment: environment.nullable().default(null),
  }),
]);
export type RelayMessage = z.input<typeof relayMessageSchema>;
export type EventMessage = Extract<z.output<typeof relayMessageSchema>, { kind: "event" }> & Traced;
export type ReplayMessage = Extract<z.output<typeof relayMessageSchema>, { kind: "replay" }> & Traced;

interface Traced {
  /** W3C trace context of the step that processes the message, if the step is traced. */
  traceparent?: string | undefined;
}

/** Subject of replay messages. */
export const REPLAY_SUBJECT = "replay";

export interface OutgoingMessage {
  /** Id for deduplication by JetStream. */
  id: string;
  subject: string;
  message: RelayMessage;
}

/**
 * Creates the message of a public event.
 *
 * @param sourceEvent the domain event
 * @param options.previousEvent public event before the event in the same stream, if the order matters
 * @param options limits of the endpoints that receive the event. If absent, all endpoints that subscribed to the
 *   event's type receive the event
 */
export function createEventMessage(
  sourceEvent: { position: bigint; stream: string; revision: bigint; correlationId: string },
  body: WebhookBody,
  options: Partial<Record<"onlyEndpointId" | "onlyApplicationId" | "exceptEndpointId", string | null>> & {
    previousEvent?: { id: string; position: bigint } | undefined;
  } = {},
): OutgoingMessage {
  const { previousEvent, ...recipients } = options;
  return {
    id: body.id,
    subject: `${body.environment}.${body.type}`,
    message: {
      kind: "event",
      position: String(sourceEvent.position),
      stream: sourceEvent.stream,
      revision: String(sourceEvent.revision),
      correlationId: sourceEvent.correlationId,
      ...recipients,
      ...(previousEvent && { previousEvent: { id: previousEvent.id, position: String(previousEvent.position) } }),
      body,
    },
  };
}
