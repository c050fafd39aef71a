import { BACKWARDS, END, type EventStoreDBClient } from "@eventstore/db-client";
import { REQUEST_TIMEOUT_MS } from "./log.ts";
import { readWithin } from "./read-within.ts";

/** Log position before the first event. */
export const BEFORE_FIRST_EVENT = -1n;

/**
 * Reads the position of the last event in the log.
 *
 * @returns `BEFORE_FIRST_EVENT` if the log is empty
 * @throws {LogUnavailableError}
 */
export async function readLogEnd(client: EventStoreDBClient): Promise<bigint> {
  const events = client.readAll({ direction: BACKWARDS, fromPosition: END, maxCount: 1 });
  let logEnd = BEFORE_FIRST_EVENT;
  for await (const { event } of readWithin(REQUEST_TIMEOUT_MS, events))
    logEnd = event?.position.commit ?? BEFORE_FIRST_EVENT;
  return logEnd;
}
