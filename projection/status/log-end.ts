import { BACKWARDS, END, type EventStoreDBClient } from "@eventstore/db-client";
import { bounded } from "./lag.ts";

/** The position of the log's last event; 0 where it is empty. */
export async function logEnd(client: EventStoreDBClient): Promise<bigint> {
  const read = client.readAll({ direction: BACKWARDS, fromPosition: END, maxCount: 1 });
  let end = 0n;
  for await (const { event } of bounded(read)) end = event?.position.commit ?? 0n;
  return end;
}
