import type { EventStoreDBClient } from "@eventstore/db-client";
import { reachEventStore } from "../eventstore/reach.ts";
import type { Logger } from "../runtime/logger.ts";
import type { Readiness } from "./health.ts";

/** Time limit for a readiness check of the event log. Milliseconds. */
const REACH_TIMEOUT_MS = 2_000;

/**
 * Creates the readiness check of a service that requires the event log. The cause of a failure is logged but not
 * returned, because it contains hosts and ports.
 */
export function createEventStoreReadinessCheck(client: EventStoreDBClient, logger: Logger): Readiness {
  return async () => {
    try {
      await reachEventStore(client, REACH_TIMEOUT_MS);
      return { eventstore: null };
    } catch (error) {
      logger.warn({ error }, "not ready: the event log does not respond");
      return { eventstore: "unavailable" };
    }
  };
}
