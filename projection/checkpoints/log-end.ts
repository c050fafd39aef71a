import { BACKWARDS, END, type EventStoreDBClient } from "@eventstore/db-client";
import { BEFORE_FIRST_EVENT } from "./checkpoint.ts";
import { readWithTimeout } from "./read-with-timeout.ts";

/** Reads the position of the last event in the log. @returns `BEFORE_FIRST_EVENT` if the log is empty */
export async function readLogEnd(client: EventStoreDBClient): Promise<bigint> {
  const events = client.readAll({ direction: BACKWARDS, fromPosition: END, maxCount: 1 });
  let logEnd = BEFORE_FIRST_EVENT;
  for await (const { event } of readWithTimeout(events)) logEnd = event?.position.commit ?? BEFORE_FIRST_EVENT;
  return logEnd;
}
