import {
  type END,
  type EventStoreDBClient,
  excludeSystemEvents,
  type Filter,
  type ResolvedEvent,
  START,
  streamNameFilter,
} from "@eventstore/db-client";
import { isCatalogStream } from "../domain/events/catalog.ts";
import type { Category } from "../domain/events/category.ts";
import { eventMetadata } from "../domain/events/metadata.ts";
import type { RecordedEvent } from "../domain/events/recorded-event.ts";
import { EventSchemaError, parseStoredEvent } from "../domain/events/stored-event.ts";
import { onAbort } from "../runtime/abort.ts";
import { toGrpcClient } from "./grpc-client.ts";
import { LogUnavailableError } from "./log.ts";
import { onReconnection } from "./reconnection.ts";

export type SubscriptionItem =
  | { kind: "event"; event: RecordedEvent; position: bigint }
  | UnreadableItem
  /** An event for which `isSkipped` returned true. It was not parsed. */
  | { kind: "skipped"; stream: string; id: string; position: bigint }
  /** An event of another program, or of the log itself. Its stream may be deleted at any time. */
  | { kind: "foreign"; position: bigint }
  /** Signals that all stored events have been delivered. Live events follow. */
  | { kind: "caughtUp" };

/** Position of an event in the log and in its stream, with the event's type. */
export interface LogPosition {
  position: bigint;
  stream: string;
  revision: bigint;
  type: string;
}

/** An event in a stream of the catalog that this release cannot decode, for example of an unknown type. */
export interface UnreadableItem extends LogPosition {
  kind: "unreadable";
  id: string;
  reason: string;
  /** Null if unknown. */
  clinicId: string | null;
}

export function describeLogPosition({ position, stream, revision }: LogPosition): string {
  return `position ${position}, stream ${stream}, revision ${revision}`;
}

interface SubscriptionOptions {
  client: EventStoreDBClient;
  /**
   * Position of the last handled event, after which the subscription starts. If undefined, the subscription starts at
   * the beginning of the log; if `END`, after the last stored event.
   */
  after: bigint | typeof END | undefined;
  /** Categories of the streams to deliver. If undefined, all streams except system streams are delivered. */
  categories?: readonly Category[];
  /** Returns true if an event must be delivered as `skipped`, without being parsed. */
  isSkipped?(stream: string, revision: bigint): boolean;
  signal: AbortSignal;
}

/** Number of 32-event batches after which the server reports its progress. The subscription ignores these reports. */
const CHECKPOINT_INTERVAL_BATCHES = 1_000;

/**
 * Subscribes to the whole log. Items arrive in log order. The subscription throws if the connection is lost, or if the
 * client sends new calls on another one: a response to a call then never hides that the subscription's connection is
 * dead. The subscription returns if the server ends it or the signal aborts. Unless the signal aborted, the caller should
 * back off and subscribe again after the last handled position. Events in streams of other programs are delivered as
 * `foreign`.
 *
 * @throws the client's error if the log is unavailable
 */
export async function* subscribeToLog(options: SubscriptionOptions): AsyncGenerator<SubscriptionItem, void> {
  const { client, after, categories, isSkipped = () => false, signal } = options;
  if (signal.aborted) return;
  const channel = await toGrpcClient(client).getChannel();
  const subscription = client.subscribeToAll({
    fromPosition: typeof after === "bigint" ? { commit: after, prepare: after } : (after ?? START),
    filter: createFilter(categories),
  });
  // The client emits this signal outside of the stream. Pushing an item into the stream orders it after earlier events.
  subscription.on("caughtUp", () => subscription.push({ kind: "caughtUp" }));
  const removeWatch = onReconnection(channel, () =>
    subscription.destroy(new LogUnavailableError("the connection to the event log was replaced")),
  );
  const removeListener = onAbort(signal, () => subscription.destroy());
  try {
    for await (const streamedItem of subscription as AsyncIterable<StreamedItem>) {
      yield "kind" in streamedItem ? streamedItem : toSubscriptionItem(streamedItem, isSkipped);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    removeListener();
    removeWatch();
    await subscription.unsubscribe().catch(ignoreUnsubscribeError);
  }
}

type StreamedItem = SubscriptionItem | ResolvedEvent;

/**
 * Ignores a failed `unsubscribe`. The loop over the subscription has already thrown the connection error that made it
 * fail.
 */
function ignoreUnsubscribeError(): void {}

function createFilter(categories: readonly Category[] | undefined): Filter {
  const options = { checkpointInterval: CHECKPOINT_INTERVAL_BATCHES };
  return categories
    ? streamNameFilter({ prefixes: categories.map(({ name }) => `${name}-`), ...options })
    : excludeSystemEvents(options);
}

function toSubscriptionItem(
  { event, commitPosition: position }: ResolvedEvent,
  isSkipped: NonNullable<SubscriptionOptions["isSkipped"]>,
): SubscriptionItem {
  if (!event || position === undefined) throw new Error("the event log returned an event without a position");
  const { id, type, streamId: stream, revision } = event;
  if (isSkipped(stream, revision)) return { kind: "skipped", stream, id, position };
  // The log itself writes events such as `$streamDeleted` to any stream.
  if (!isCatalogStream(stream) || type.startsWith("$")) return { kind: "foreign", position };
  try {
    const validEvent = parseStoredEvent(event);
    return { kind: "event", position, event: Object.assign(validEvent, { id, stream, revision, position }) };
  } catch (error) {
    // Decoding depends only on the event, so a later attempt would fail with the same error.
    const reason = error instanceof EventSchemaError ? error.message : `${type} cannot be decoded`;
    return { kind: "unreadable", position, stream, revision, type, id, reason, clinicId: findClinicId(event.metadata) };
  }
}

const clinicMetadata = eventMetadata.pick({ clinicId: true });

function findClinicId(metadata: unknown): string | null {
  return clinicMetadata.safeParse(metadata).data?.clinicId ?? null;
}
