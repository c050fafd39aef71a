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

/** Passed on as it is, the order of its fields included: it is signed and sent as it was made. */
const body = z.custom<WebhookBody>((value) => routing.safeParse(value).success, "must be a webhook body");

/** What the relay puts onto JetStream and the dispatchers take from it. Bigints travel as texts. */
export const relayMessage = z.discriminatedUnion("kind", [
  /** A public event. */
  z.object({
    kind: z.literal("event"),
    /** Where the domain event stands: in the log, and in its stream. */
    position: place,
    stream: z.string(),
    revision: place,
    correlationId: uuid,
    /** The one endpoint that hears of it; null where all do that asked for its type. */
    onlyEndpointId: uuid.nullable().default(null),
    body,
  }),
  /** A delivery is to be tried again, as a partner asked for. */
  z.object({
    kind: z.literal("replay"),
    position: place,
    /** The id of the event that asks for it. */
    requestId: uuid,
    correlationId: uuid,
    deliveryId: uuid,
    endpointId: uuid,
    /** Of the request, as far as it says. */
    clinicId: uuid.nullable().default(null),
    environment: environment.nullable().default(null),
  }),
]);
export type RelayMessage = z.input<typeof relayMessage>;
export type EventMessage = Extract<z.output<typeof relayMessage>, { kind: "event" }>;
export type ReplayMessage = Extract<z.output<typeof relayMessage>, { kind: "replay" }>;

/** A message, its id against doubles, and the subject below the stream's prefix. */
export interface Outgoing {
  id: string;
  subject: string;
  message: RelayMessage;
}

/**
 * The message of a public event.
 *
 * @param onlyEndpointId the one endpoint that hears of it; all that asked for its type where absent
 */
export function eventMessage(
  at: { position: bigint; stream: string; revision: bigint; correlationId: string },
  body: WebhookBody,
  onlyEndpointId?: string,
): Outgoing {
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
