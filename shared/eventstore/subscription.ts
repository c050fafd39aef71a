import {
  type EventStoreDBClient,
  excludeSystemEvents,
  type Filter,
  START,
  streamNameFilter,
} from "@eventstore/db-client";
import { isCatalogStream } from "../domain/events/catalog.ts";
import type { Category } from "../domain/events/category.ts";
import { EventSchemaError, parseStoredEvent } from "../domain/events/stored-event.ts";
import { onAbort } from "../runtime/abort.ts";
import type { RecordedEvent } from "./log.ts";

/** What a catch-up subscription gives. */
export type SubscriptionItem =
  | { kind: "event"; event: RecordedEvent; position: bigint }
  /** An event that the subscriber skips. It was not parsed. */
  | { kind: "skipped"; stream: string; id: string; position: bigint }
  /** An event of another program that shares the log. Its stream may be deleted at any time. */
  | { kind: "foreign"; position: bigint }
  /** Every event that was stored when the subscription started has been given; live events follow. */
  | { kind: "caughtUp" };

/** Where an event stands, and of what type it is. */
export interface LogPosition {
  position: bigint;
  stream: string;
  revision: bigint;
  type: string;
}

/** The words for a place. */
export function describeLogPosition({ position, stream, revision }: LogPosition): string {
  return `position ${position}, stream ${stream}, revision ${revision}`;
}

/** A stored event that this release cannot read. */
export class UnreadableEvent extends Error {
  override readonly name = "UnreadableEvent";
  readonly id: string;
  readonly place: LogPosition;
  /** Why it cannot be read. */
  readonly reason: string;

  constructor(id: string, place: LogPosition, cause: EventSchemaError) {
    super(`${describeLogPosition(place)}: ${cause.message}`, { cause });
    this.id = id;
    this.place = place;
    this.reason = cause.message;
  }
}

export interface CatchUpOptions {
  client: EventStoreDBClient;
  /** Exclusive: the position of the last event already handled; undefined for the log's start. */
  after: bigint | undefined;
  /** Only streams of these categories; every stream but the system's own if absent. */
  categories?: readonly Category[];
  /** Returns true for an event that is skipped without being parsed. */
  isSkipped?(stream: string, revision: bigint): boolean;
  /** Ends the subscription. */
  signal: AbortSignal;
}

/** The server reports its progress after this many times 32 events that it left out. Nobody here uses the reports. */
const CHECKPOINT_INTERVAL = 1_000;

/**
 * One catch-up subscription to the whole log. Items come in the log's order. It throws if the connection is lost. It
 * returns if the server ends it or the signal aborts. Unless the signal aborted, the caller backs off and subscribes
 * again after the last position that it has handled.
 *
 * An event of the catalog's streams that this release cannot read ends the subscription, whether its type or its
 * schema version is unknown. Events of other programs' streams are given as `foreign`.
 *
 * @throws {UnreadableEvent}
 * @throws what the client throws if the log is out of reach
 */
export async function* catchUp(options: CatchUpOptions): AsyncGenerator<SubscriptionItem, void> {
  const { client, after, categories, isSkipped = () => false, signal } = options;
  if (signal.aborted) return;
  const subscription = client.subscribeToAll({
    fromPosition: after === undefined ? START : { commit: after, prepare: after },
    filter: filterFor(categories),
  });
  // The client reports «caught up» beside the events; pushed into the same stream it keeps its place.
  subscription.on("caughtUp", () => subscription.push({ kind: "caughtUp" }));
  const remove = onAbort(signal, () => subscription.destroy());
  try {
    for await (const given of subscription as AsyncIterable<Given>) {
      yield "kind" in given ? given : toItem(given, isSkipped);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    remove();
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

function filterFor(categories: readonly Category[] | undefined): Filter {
  const options = { checkpointInterval: CHECKPOINT_INTERVAL };
  return categories
    ? streamNameFilter({ prefixes: categories.map(({ name }) => `${name}-`), ...options })
    : excludeSystemEvents(options);
}

function toItem(
  { event, commitPosition: position }: ResolvedEvent,
  isSkipped: NonNullable<CatchUpOptions["isSkipped"]>,
): SubscriptionItem {
  if (!event || position === undefined) throw new Error("the log gave an event without a position");
  const { id, type, streamId: stream, revision } = event;
  if (isSkipped(stream, revision)) return { kind: "skipped", stream, id, position };
  if (!isCatalogStream(stream)) return { kind: "foreign", position };
  try {
    const parsed = parseStoredEvent(event);
    return { kind: "event", position, event: Object.assign(parsed, { id, stream, revision, position }) };
  } catch (error) {
    if (!(error instanceof EventSchemaError)) throw error;
    throw new UnreadableEvent(id, { position, stream, revision, type }, error);
  }
}
