import type { EventStoreDBClient } from "@eventstore/db-client";
import { StartError } from "../runtime/run-service.ts";
import { LogUnavailable } from "./log.ts";

/**
 * Asks the event log for its first event, to know whether it answers.
 *
 * @param within milliseconds
 * @throws what the client throws where it does not
 */
export async function reachEventStore(client: EventStoreDBClient, within: number): Promise<void> {
  const read = client.readAll({ maxCount: 1, deadline: within });
  // The client's deadline does not bound a server that takes connections and says nothing.
  const timer = setTimeout(
    () => read.destroy(new LogUnavailable("the event log did not answer in time")),
    within,
  );
  try {
    for await (const _ of read) {
      // Read to its end: a read that is left early keeps its call, and the client could never be disposed of.
    }
  } finally {
    clearTimeout(timer);
  }
}

/** A log that runs answers a service's first question within this, also on a busy machine. Milliseconds. */
const REACH_WITHIN = 15_000;

/**
 * A service that cannot reach the log when it starts says so at once, in one line.
 *
 * @throws {StartError}
 */
export async function requireEventStore(client: EventStoreDBClient, url: string): Promise<void> {
  try {
    await reachEventStore(client, REACH_WITHIN);
  } catch (error) {
    throw new StartError(`the event log at ${withoutSecrets(url)} does not answer (EVENTSTORE_URL)`, {
      cause: error,
    });
  }
}

/** A connection string without what may be secret in it: user, password and options. */
function withoutSecrets(url: string): string {
  return url.replace(/\?.*$/s, "").replace(/\/\/.*@/s, "//");
}
