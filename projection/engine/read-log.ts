import type { EventStoreDBClient } from "@eventstore/db-client";
import { type SubscriptionItem, subscribeToLog } from "../../shared/eventstore/subscription.ts";
import type { StreamsToSkip } from "../quarantine/quarantined-streams.ts";

export interface ReadLogOptions {
  /** Position of the last handled event. If undefined, reading starts at the beginning of the log. */
  after: bigint | undefined;
  streamsToSkip: StreamsToSkip;
  signal: AbortSignal;
}

/** Reads the log, and then live events. Throws like {@link subscribeToLog}. */
export type ReadLog = (options: ReadLogOptions) => AsyncIterable<SubscriptionItem>;

export function readInCallingThread(client: EventStoreDBClient): ReadLog {
  return ({ after, streamsToSkip, signal }) => {
    const isSkipped = (stream: string, revision: bigint) => {
      const firstSkippedEvent = streamsToSkip.get(stream);
      return firstSkippedEvent !== undefined && revision >= firstSkippedEvent.revision;
    };
    return subscribeToLog({ client, after, isSkipped, signal });
  };
}
