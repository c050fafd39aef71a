import { BACKWARDS, END, type EventStoreDBClient } from "@eventstore/db-client";
import { BEFORE_FIRST_EVENT } from "./checkpoint.ts";
import { readWithTimeout } from "./read-with-timeout.ts";

/** Reads the position of the last event in the log. @returns `BEFORE_FIRST_EVENT` if the log is empty */
export async function readLogEnd(client: EventStoreDBClient): Promise<bigint> {
  const read = client.readAll({ direction: BACKWARDS, fromPosition: END, maxCount: 1 });
  let end = BEFORE_FIRST_EVENT;
  for await (const { event } of readWithTimeout(read)) end = event?.position.commit ?? BEFORE_FIRST_EVENT;
  return end;
}
