import {
  type AllStreamSubscription,
  type EventStoreDBClient,
  eventTypeFilter,
  excludeSystemEvents,
  type Filter,
  START,
} from "@eventstore/db-client";
import { type CatalogEventType, EventSchemaError, parseStoredEvent } from "../events/registry.ts";
import type { RecordedEvent } from "./log.ts";

/** What a catch-up subscription gives. */
export type SubscriptionItem =
  | { kind: "event"; event: RecordedEvent; position: bigint }
  /** An event of a type that the catalog does not know. */
  | { kind: "unknown"; type: string; position: bigint }
  /** An event that the subscriber wanted passed over. It was not looked into. */
  | { kind: "passedOver"; stream: string; position: bigint }
  /** Nothing of interest up to here: a place to resume from. */
  | { kind: "checkpoint"; position: bigint }
  /** All that was stored when the subscription started has been given; what follows is live. */
  | { kind: "caughtUp" };

/** Where an event stands, and of what type it is. */
export interface Place {
  position: bigint;
  stream: string;
  revision: bigint;
  type: string;
}

/** The words for a place. */
export function placeText({ position, stream, revision }: Place): string {
  return `position ${position}, stream ${stream}, revision ${revision}`;
}

/** A stored event that does not fit its schema. */
export class UnreadableEvent extends Error {
  override readonly name = "UnreadableEvent";
  readonly place: Place;
  /** What does not fit. */
  readonly reason: string;

  constructor(place: Place, cause: EventSchemaError) {
    super(`${placeText(place)}: ${cause.message}`, { cause });
    this.place = place;
    this.reason = cause.message;
  }
}

export interface CatchUpOptions {
  client: EventStoreDBClient;
  /** Exclusive: the position of the last event already handled; undefined for the log's start. */
  after: bigint | undefined;
  /** Only these event types; every type but the system's own where absent. */
  types?: readonly CatalogEventType[];
  /** Whether an event is passed over unread. */
  passesOver?(stream: string, revision: bigint): boolean;
  /** Ends the subscription. */
  signal: AbortSignal;
}

/** A checkpoint comes after this many times 32 events that the filter left out. */
const CHECKPOINT_INTERVAL = 8;

/**
 * One catch-up subscription to the whole log, its items in the log's order. It ends by throwing where the
 * connection is lost, and by returning where the server ends it in good order or the signal aborts: in the first
 * two cases the caller backs off and subscribes again after the last position that it has dealt with.
 *
 * @throws {UnreadableEvent}
 * @throws what the client throws where the log is out of reach
 */
export async function* catchUp(options: CatchUpOptions): AsyncGenerator<SubscriptionItem, void> {
  const { client, after, types, passesOver = () => false, signal } = options;
  if (signal.aborted) return;
  // The client reports checkpoints and «caught up» beside the events; pushed into the same stream they keep their place.
  const push = (subscription: AllStreamSubscription, item: SubscriptionItem) => subscription.push(item);
  const subscription = client.subscribeToAll({
    fromPosition: after === undefined ? START : { commit: after, prepare: after },
    filter: filterFor(types, (at, position) => {
      push(at, { kind: "checkpoint", position: position.commit });
    }),
  });
  subscription.on("caughtUp", () => push(subscription, { kind: "caughtUp" }));
  const stop = () => subscription.destroy();
  signal.addEventListener("abort", stop, { once: true });
  try {
    for await (const given of subscription as AsyncIterable<Given>) {
      yield "kind" in given ? given : toItem(given, passesOver);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    signal.removeEventListener("abort", stop);
    await subscription.unsubscribe().catch(ignoreNeverConnected);
  }
}

type Given = SubscriptionItem | ResolvedEvent;

interface ResolvedEvent {
  event?: {
    id: string;
    type: string;
    streamId: string;
    revision: bigint;
    data: unknown;
    metadata: unknown;
  };
  commitPosition?: bigint;
}

/** Cancelling a call that was never made fails with the reason why it was not: the loop has thrown that already. */
function ignoreNeverConnected(): void {}

function filterFor(
  types: readonly CatalogEventType[] | undefined,
  checkpointReached: NonNullable<Parameters<typeof excludeSystemEvents>[0]>["checkpointReached"],
): Filter {
  const options = {
    checkpointInterval: CHECKPOINT_INTERVAL,
    ...(checkpointReached && { checkpointReached }),
  };
  // Anchored, since a prefix would let longer names through.
  return types
    ? eventTypeFilter({ regex: `^(${types.join("|")})$`, ...options })
    : excludeSystemEvents(options);
}

function toItem(
  { event, commitPosition }: ResolvedEvent,
  passesOver: NonNullable<CatchUpOptions["passesOver"]>,
): SubscriptionItem {
  if (!event || commitPosition === undefined) throw new Error("the log gave an event without a position");
  const { id, type, streamId: stream, revision } = event;
  if (passesOver(stream, revision)) return { kind: "passedOver", stream, position: commitPosition };
  try {
    const parsed = parseStoredEvent(event);
    return parsed
      ? {
          kind: "event",
          position: commitPosition,
          event: Object.assign(parsed, { id, stream, revision, position: commitPosition }),
        }
      : { kind: "unknown", type, position: commitPosition };
  } catch (error) {
    if (!(error instanceof EventSchemaError)) throw error;
    throw new UnreadableEvent({ position: commitPosition, stream, revision, type }, error);
  }
}
