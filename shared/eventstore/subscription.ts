import {
  type END,
  type EventStoreDBClient,
  excludeSystemEvents,
  type Filter,
  type ResolvedEvent,
  START,
  type RecordedEvent as StoredEvent,
  streamNameFilter,
} from "@eventstore/db-client";
import { type Channel, connectivityState } from "@grpc/grpc-js";
import { isCatalogStream } from "../domain/events/catalog.ts";
import type { Category } from "../domain/events/category.ts";
import { eventMetadata } from "../domain/events/metadata.ts";
import type { RecordedEvent } from "../domain/events/recorded-event.ts";
import { EventSchemaError, parseStoredEvent } from "../domain/events/stored-event.ts";
import { onAbort } from "../runtime/abort.ts";
import { toGrpcClient } from "./grpc-client.ts";
import { LogUnavailableError } from "./log.ts";

export type SubscriptionItem =
  | { kind: "event"; event: RecordedEvent; position: bigint }
  /** An event in a stream of the catalog that this release cannot decode, for example of an unknown type. */
  | { kind: "unreadable"; event: UnreadableEvent; position: bigint; reason: string }
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

interface UnreadableEvent extends LogPosition {
  id: string;
  /** `clinicId` is null if the event belongs to no clinic, or its metadata is invalid. */
  metadata: { clinicId: string | null };
}

export function describeLogPosition({ position, stream, revision }: LogPosition): string {
  return `position ${position}, stream ${stream}, revision ${revision}`;
}

interface StoredSubscriptionOptions {
  client: EventStoreDBClient;
  /**
   * Position of the last handled event, after which the subscription starts. If undefined, the subscription starts at
   * the beginning of the log; if `END`, after the last stored event.
   */
  after: bigint | typeof END | undefined;
  signal: AbortSignal;
  /** Filter of the events to send. If undefined, the server sends all events, including system events. */
  filter?: Filter;
  /**
   * If true, the subscription throws if the server sends nothing for 10 seconds. Use it only for reads that stop at a
   * known event.
   */
  endsOnSilence?: boolean;
}

/** Number of 32-event batches between two progress reports of the server. High, because the reports are ignored. */
const CHECKPOINT_INTERVAL_BATCHES = 1_000;

/** A stored event with its position, or the signal that all stored events have been delivered. Live events follow. */
export type StoredItem = { kind: "stored"; event: StoredEvent; position: bigint } | { kind: "caughtUp" };

/**
 * Subscribes to the log, without parsing the events. Items arrive in log order. The subscription returns if the server
 * ends it or the signal aborts. Unless the signal aborted, the caller should back off and subscribe again after the
 * last handled position.
 *
 * @throws the client's error if the log is unavailable or the connection is lost
 * @throws {LogUnavailableError} if the client opens a new connection, because the old connection may be dead
 */
export async function* subscribeToStoredEvents(options: StoredSubscriptionOptions): AsyncGenerator<StoredItem, void> {
  const { client, after, signal, filter, endsOnSilence = false } = options;
  if (signal.aborted) return;
  const channel = await toGrpcClient(client).getChannel();
  const subscription = client.subscribeToAll({
    fromPosition: typeof after === "bigint" ? { commit: after, prepare: after } : (after ?? START),
    ...(filter && { filter }),
  });
  // The client emits this signal outside of the stream. Pushing an item into the stream orders it after earlier events.
  subscription.on("caughtUp", () => subscription.push({ kind: "caughtUp" }));
  const removeWatch = onReconnection(channel, () =>
    subscription.destroy(new LogUnavailableError("the connection to the event log was replaced")),
  );
  const removeListener = onAbort(signal, () => subscription.destroy());
  const watchdog = endsOnSilence
    ? createSilenceWatchdog(() => subscription.destroy(new LogUnavailableError("the event log stopped sending events")))
    : undefined;
  try {
    for await (const item of subscription as AsyncIterable<{ kind: "caughtUp" } | ResolvedEvent>) {
      watchdog?.pause();
      yield "kind" in item ? item : toStoredItem(item);
      watchdog?.restart();
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    watchdog?.end();
    removeListener();
    removeWatch();
    await subscription.unsubscribe().catch(ignoreUnsubscribeError);
  }
}

/**
 * Subscribes to the log, and parses the events. Without a filter, delivers all events except system events. Events in
 * streams of other programs are delivered as `foreign`. Ends and fails like {@link subscribeToStoredEvents}.
 */
export async function* subscribeToLog(options: StoredSubscriptionOptions): AsyncGenerator<SubscriptionItem, void> {
  const filter = options.filter ?? excludeSystemEvents({ checkpointInterval: CHECKPOINT_INTERVAL_BATCHES });
  for await (const item of subscribeToStoredEvents({ ...options, filter }))
    yield item.kind === "stored" ? toSubscriptionItem(item) : item;
}

/**
 * Ignores a failed `unsubscribe`. The loop over the subscription has already thrown the connection error that caused
 * the failure.
 */
function ignoreUnsubscribeError(): void {}

/** Creates a filter that selects the events in the streams of the categories. */
export function createCategoryFilter(categories: readonly Category[]): Filter {
  const prefixes = categories.map(({ name }) => `${name}-`);
  return streamNameFilter({ prefixes, checkpointInterval: CHECKPOINT_INTERVAL_BATCHES });
}

function toStoredItem({ event, commitPosition: position }: ResolvedEvent): StoredItem {
  if (!event || position === undefined) throw new Error("the event log returned an event without a position");
  return { kind: "stored", event, position };
}

function toSubscriptionItem({ event, position }: Extract<StoredItem, { kind: "stored" }>): SubscriptionItem {
  const { id, type, streamId: stream, revision } = event;
  // The log itself writes events such as `$streamDeleted` to any stream.
  if (!isCatalogStream(stream) || type.startsWith("$")) return { kind: "foreign", position };
  const location = { id, stream, revision, position };
  try {
    return { kind: "event", position, event: Object.assign(parseStoredEvent(event), location) };
  } catch (error) {
    // Decoding depends only on the event, so a later attempt would fail with the same error.
    const reason = error instanceof EventSchemaError ? error.message : `${type} cannot be decoded`;
    const metadata = { clinicId: findClinicId(event.metadata) };
    return { kind: "unreadable", position, event: { ...location, type, metadata }, reason };
  }
}

const clinicMetadata = eventMetadata.pick({ clinicId: true });

function findClinicId(metadata: unknown): string | null {
  return clinicMetadata.safeParse(metadata).data?.clinicId ?? null;
}

interface Watch {
  listener(): void;
  /** True if the channel has been connected since the watch began. */
  wasReady: boolean;
}

const watchesByChannel = new WeakMap<Channel, Set<Watch>>();

/**
 * Calls the listener each time the channel reconnects, and when it is closed. Earlier calls of the channel still use
 * the old connection, which may be dead. All listeners share one watch of the channel, because gRPC cannot remove a
 * watch.
 *
 * @returns a function that removes the listener
 */
export function onReconnection(channel: Channel, listener: () => void): () => void {
  const state = channel.getConnectivityState(false);
  if (state === connectivityState.SHUTDOWN) {
    listener();
    return () => {};
  }
  const watches = watchesByChannel.get(channel) ?? new Set();
  if (!watchesByChannel.has(channel)) {
    watchesByChannel.set(channel, watches);
    watchState(channel, state, watches);
  }
  const watch = { listener, wasReady: state === connectivityState.READY };
  watches.add(watch);
  return () => watches.delete(watch);
}

function watchState(channel: Channel, stateBefore: connectivityState, watches: ReadonlySet<Watch>): void {
  channel.watchConnectivityState(stateBefore, Number.POSITIVE_INFINITY, () => {
    const state = channel.getConnectivityState(false);
    const [isClosed, isReady] = [state === connectivityState.SHUTDOWN, state === connectivityState.READY];
    if (!isClosed) watchState(channel, state, watches);
    for (const watch of watches) {
      if (isClosed || (isReady && watch.wasReady)) watch.listener();
      watch.wasReady ||= isReady;
    }
  });
}

/** Time after which a read fails if the event log sends nothing. */
const SILENCE_TIMEOUT_MS = 10_000;

/** Starts a timer that calls `onSilence` after 10 seconds. `restart` resets the timer, and `end` stops it. */
export function createSilenceWatchdog(onSilence: () => void) {
  let startedAt: number | undefined = performance.now();
  const timer = setInterval(() => {
    if (startedAt !== undefined && performance.now() - startedAt > SILENCE_TIMEOUT_MS) onSilence();
  }, 1_000);
  timer.unref();
  return {
    restart() {
      startedAt = performance.now();
    },
    /** Stops the timer until `restart`. Call it while the consumer processes an event. */
    pause() {
      startedAt = undefined;
    },
    end: () => clearInterval(timer),
  };
}
