import {
  type AllStreamSubscription,
  type EventStoreDBClient,
  excludeSystemEvents,
  type Filter,
  type Position,
  type RecordedEvent,
  START,
  streamNameFilter,
} from "@eventstore/db-client";
import { LogUnavailableError, toLogError } from "../../../shared/eventstore/log.ts";
import { createSilenceWatchdog } from "../../../shared/eventstore/silence-watchdog.ts";
import { onAbort } from "../../../shared/runtime/abort.ts";
import { type LogEvent, toLogEvent } from "./audit-event.ts";

export interface ScanProgress {
  read: number;
  /** Fraction of the log that has been scanned, from 0 to 1. */
  share: number;
}

export interface ScanOptions {
  client: EventStoreDBClient;
  /**
   * Prefixes of the names of the streams to scan; undefined for all streams. The server does not send events of other
   * streams.
   */
  prefixes: readonly string[] | undefined;
  /** Log position after which the scan starts; undefined for the start of the log. */
  startAfter?: bigint | undefined;
  endPosition: bigint;
  signal: AbortSignal;
  onProgress?: ((progress: ScanProgress) => void) | undefined;
}

/** Number of 32-event batches after which the server reports the position of a filtered scan. */
const CHECKPOINT_INTERVAL = 32;

/**
 * Yields the events of the log up to a log position, as fast as the consumer reads them. If the signal aborts, the scan
 * ends without an error.
 *
 * @throws {LogUnavailableError} if the event log fails, stops sending events, or ends the subscription early
 */
export async function* scanLog(options: ScanOptions): AsyncGenerator<LogEvent, void> {
  const { client, startAfter, endPosition, signal, onProgress } = options;
  if (signal.aborted) return;
  const fromPosition = startAfter === undefined ? START : { commit: startAfter, prepare: startAfter };
  const subscription = client.subscribeToAll({ fromPosition, filter: createFilter(options.prefixes) });
  subscription.on("caughtUp", () => subscription.push({ kind: "caughtUp" } satisfies ScanNotice));
  const removeListener = onAbort(signal, () => subscription.destroy());
  const watchdog = createSilenceWatchdog(() =>
    subscription.destroy(new LogUnavailableError("the event log stopped sending events")),
  );
  const getShare = (position: bigint) => (endPosition <= 0n ? 1 : Number(position) / Number(endPosition));
  let readCount = 0;
  try {
    for await (const item of subscription as AsyncIterable<SubscriptionItem>) {
      watchdog.restart();
      if ("kind" in item) {
        if (item.kind === "caughtUp" || item.position > endPosition) return;
        onProgress?.({ read: readCount, share: getShare(item.position) });
        continue;
      }
      const position = item.commitPosition ?? item.event?.position?.commit;
      if (position === undefined) throw new Error("the event log returned an event without a position");
      if (position > endPosition) return;
      if (!item.event) continue;
      readCount += 1;
      onProgress?.({ read: readCount, share: getShare(position) });
      watchdog.pause();
      yield toLogEvent(item.event, position);
      watchdog.restart();
      if (position === endPosition) return;
    }
    if (!signal.aborted) throw new LogUnavailableError("the event log ended the subscription before the scan's end");
  } catch (error) {
    if (!signal.aborted) throw toLogError(error);
  } finally {
    watchdog.end();
    removeListener();
    await subscription.unsubscribe().catch(ignoreConnectionError);
  }
}

/** Notice that the scan inserts between the subscription's events, to report progress or to end the scan. */
type ScanNotice = { kind: "caughtUp" } | { kind: "checkpoint"; position: bigint };
type SubscriptionItem = ScanNotice | { event?: RecordedEvent; commitPosition?: bigint };

/**
 * If a subscription never connected, unsubscribing fails with the connection error. The scan has then already thrown
 * that error.
 */
function ignoreConnectionError(): void {}

function createFilter(prefixes: readonly string[] | undefined): Filter {
  const checkpointReached = (subscription: AllStreamSubscription, position: Position) => {
    subscription.push({ kind: "checkpoint", position: position.commit } satisfies ScanNotice);
  };
  const options = { checkpointInterval: CHECKPOINT_INTERVAL, checkpointReached };
  return prefixes ? streamNameFilter({ prefixes: [...prefixes], ...options }) : excludeSystemEvents(options);
}
