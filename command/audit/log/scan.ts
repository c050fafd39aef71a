import type { EventStoreDBClient } from "@eventstore/db-client";
import { LogUnavailableError, toLogError } from "../../../shared/eventstore/log.ts";
import { type StoredItem, subscribeToStoredEvents } from "../../../shared/eventstore/subscription.ts";

type ScannedEvent = Extract<StoredItem, { kind: "stored" }>;

export interface ScanProgress {
  read: number;
  /** Fraction of the log that has been scanned, from 0 to 1. */
  share: number;
}

export interface ScanOptions {
  client: EventStoreDBClient;
  /** Log position after which the scan starts; undefined for the start of the log. */
  after: bigint | undefined;
  endPosition: bigint;
  signal: AbortSignal;
  onProgress?: ((progress: ScanProgress) => void) | undefined;
}

/** Number of events after which a scan reports its progress. */
const PROGRESS_INTERVAL = 1_000;

/**
 * Yields the events of the log up to a log position, including system events of the log. Reads as fast as the consumer
 * iterates. If the signal aborts, the scan ends without an error.
 *
 * @throws {LogUnavailableError} if the event log fails, stops sending events, or ends the subscription early
 */
export async function* scanLog({
  endPosition,
  onProgress,
  ...options
}: ScanOptions): AsyncGenerator<ScannedEvent, void> {
  if (endPosition <= (options.after ?? -1n)) return;
  let readCount = 0;
  try {
    for await (const item of subscribeToStoredEvents({ ...options, endsOnSilence: true })) {
      if (item.kind === "caughtUp" || item.position > endPosition) return;
      readCount += 1;
      if (readCount % PROGRESS_INTERVAL === 0)
        onProgress?.({ read: readCount, share: Number(item.position) / Math.max(1, Number(endPosition)) });
      yield item;
      if (item.position === endPosition) return;
    }
  } catch (error) {
    throw toLogError(error);
  }
  if (!options.signal.aborted)
    throw new LogUnavailableError("the event log ended the subscription before the scan's end");
}

/** Returns true for a system event, which the log itself wrote, for example when a stream was deleted. */
export function isOfLog({ type }: { type: string }): boolean {
  return type.startsWith("$");
}
