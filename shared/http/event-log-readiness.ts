import type { EventStoreDBClient } from "@eventstore/db-client";
import { reachEventStore } from "../eventstore/reach.ts";
import type { Logger } from "../runtime/logger.ts";
import type { Readiness } from "./health.ts";

/** The log answers a question after its health within this. Milliseconds. */
const REACH_TIMEOUT_MS = 2_000;

/**
 * Whether a service that can do nothing without the log is ready. Why it is not is for the service's own log alone: the
 * client names hosts and ports.
 */
export function eventStoreReadiness(client: EventStoreDBClient, logger: Logger): Readiness {
  return async () => {
    try {
      await reachEventStore(client, REACH_TIMEOUT_MS);
      return { eventstore: null };
    } catch (error) {
      logger.warn({ error }, "not ready");
      return { eventstore: "unavailable" };
    }
  };
}
