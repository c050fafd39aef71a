import type { EventStoreDBClient } from "@eventstore/db-client";
import { StartError } from "../runtime/run-service.ts";
import { readWithin } from "./log.ts";

/**
 * Checks that the event log answers by reading its first event.
 *
 * @param within time limit in milliseconds
 * @throws {LogUnavailableError} or what else the client throws
 */
export async function reachEventStore(client: EventStoreDBClient, within: number): Promise<void> {
  for await (const _ of readWithin(within, client.readAll({ maxCount: 1, deadline: within }))) {
    // Read to the end: a read that is left early keeps its call open, and the client cannot be disposed of.
  }
}

/** Time limit for the first answer of a running log, also on a busy machine. Milliseconds. */
const REACH_TIMEOUT_MS = 15_000;

/**
 * Requires that the event log answers when a service starts.
 *
 * @throws {StartError}
 */
export async function requireEventStore(client: EventStoreDBClient, url: string): Promise<void> {
  try {
    await reachEventStore(client, REACH_TIMEOUT_MS);
  } catch (error) {
    throw new StartError(
      `the event log at ${withoutSecrets(url)} does not answer; check EVENTSTORE_URL and that the log is running`,
      {
        cause: error,
      },
    );
  }
}

/** Removes possible secrets from a connection string: user, password and options. */
function withoutSecrets(url: string): string {
  return url.replace(/\?.*$/s, "").replace(/\/\/.*@/s, "//");
}
