import type { EventStoreDBClient } from "@eventstore/db-client";
import { type SubscriptionItem, subscribeToLog } from "../../shared/eventstore/subscription.ts";

export interface ReadLogOptions {
  /** Position of the last handled event. If undefined, reading starts at the beginning of the log. */
  after: bigint | undefined;
  signal: AbortSignal;
}

/** Reads the log, and then live events. Throws like {@link subscribeToLog}. */
export type ReadLog = (options: ReadLogOptions) => AsyncIterable<SubscriptionItem>;

export function readInCallingThread(client: EventStoreDBClient): ReadLog {
  return (options) => subscribeToLog({ client, ...options });
}
