import type pg from "pg";
import { deriveWebhookDeliveryId } from "../../../shared/domain/events/ids.ts";
import type { EventMessage } from "../../relay/message.ts";

/** The events that are already matched with endpoints. */
export interface MatchedEvents {
  /** Position of the relay's checkpoint. All events up to this position are matched. */
  checkpoint: bigint;
  /** Ids of existing deliveries of the events of the batch, and of the event before each. */
  deliveryIds: ReadonlySet<string>;
}

/** An event and an endpoint that gets the events of each appointment in order. */
interface OrderedMatch {
  event: EventMessage;
  endpointId: string;
}

/**
 * Creates a function that returns true if all earlier events of the same appointment are matched with the endpoint, or
 * are part of the same batch. Otherwise a later event could be sent first, because messages can arrive in any order.
 *
 * A delivery of the event, or of the event before it, proves that all earlier events are matched too: the delivery was
 * added after the same check.
 *
 * @param batch all events of the batch
 */
export function createOrderCheck(
  batch: readonly EventMessage[],
  { checkpoint, deliveryIds }: MatchedEvents,
): (match: OrderedMatch) => boolean {
  const eventsById = new Map(batch.map((event) => [event.body.id, event]));
  const hasDelivery = (eventId: string, endpointId: string) =>
    deliveryIds.has(deriveWebhookDeliveryId(eventId, endpointId));
  return ({ event, endpointId }) => {
    if (hasDelivery(event.body.id, endpointId)) return true;
    for (let current: EventMessage | undefined = event; current; ) {
      const { previousEvent }: EventMessage = current;
      if (previousEvent === null || previousEvent.position <= checkpoint) return true;
      if (hasDelivery(previousEvent.id, endpointId)) return true;
      current = eventsById.get(previousEvent.id);
    }
    return false;
  };
}

/** Reads the relay's checkpoint, and the existing deliveries of the events and of the event before each. */
export async function readMatchedEvents(pool: pg.Pool, matches: readonly OrderedMatch[]): Promise<MatchedEvents> {
  const deliveryIds = matches.flatMap(({ event: { body, previousEvent }, endpointId }) =>
    [body, ...(previousEvent ? [previousEvent] : [])].map(({ id }) => deriveWebhookDeliveryId(id, endpointId)),
  );
  const { rows } = await pool.query<{ checkpoint: bigint; deliveryIds: string[] }>({
    name: "earlier events",
    text: `SELECT COALESCE((SELECT position FROM webhooks.relay_checkpoint), -1) AS checkpoint,
                  ARRAY(SELECT delivery_id::text FROM webhooks.delivery WHERE delivery_id = ANY ($1::uuid[])) AS "deliveryIds"`,
    values: [deliveryIds],
  });
  const [row] = rows;
  if (!row) throw new Error("The query for earlier events returned no row.");
  return { checkpoint: row.checkpoint, deliveryIds: new Set(row.deliveryIds) };
}
