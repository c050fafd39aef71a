import type { EventStoreDBClient } from "@eventstore/db-client";
import { StartError } from "../runtime/run-service.ts";
import { readWithin } from "./log.ts";

/**
 * Asks the event log for its first event, to know whether it answers.
 *
 * @param within milliseconds
 * @throws {LogUnavailable} or what else the client throws
 */
export async function reachEventStore(client: EventStoreDBClient, within: number): Promise<void> {
  for await (const _ of readWithin(within, client.readAll({ maxCount: 1, deadline: within }))) {
    // Read to the end: a read that is left early keeps its call open, and the client cannot be disposed of.
  }
}

/** A log that runs answers a service's first question within this, also on a busy machine. Milliseconds. */
const REACH_TIMEOUT_MS = 15_000;

/**
 * A service that cannot reach the log when it starts says so at once, in one line.
 *
 * @throws {StartError}
 */
export async function requireEventStore(client: EventStoreDBClient, url: string): Promise<void> {
  try {
    await reachEventStore(client, REACH_TIMEOUT_MS);
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
