import { BACKWARDS, END, type EventStoreDBClient } from "@eventstore/db-client";
import { REQUEST_TIMEOUT_MS } from "../../shared/eventstore/log.ts";
import { readWithin } from "../../shared/eventstore/read-within.ts";
import { BEFORE_FIRST_EVENT } from "./checkpoint.ts";

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
