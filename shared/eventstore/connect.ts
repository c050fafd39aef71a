import { EventStoreDBClient } from "@eventstore/db-client";

/**
 * Opens a client of the event log. It connects at the first call, not here.
 *
 * @param url EventStoreDB connection string, `esdb://host:port?tls=false`
 * @param connectionName says at the server who is connected
 */
export function connectEventStore(url: string, connectionName: string): EventStoreDBClient {
  const { searchParams } = new URL(url);
  // A dead peer is noticed within the sum of the two, unless the URL says otherwise.
  if (!searchParams.has("keepAliveInterval")) searchParams.set("keepAliveInterval", "10000");
  if (!searchParams.has("keepAliveTimeout")) searchParams.set("keepAliveTimeout", "5000");
  if (!searchParams.has("connectionName")) searchParams.set("connectionName", connectionName);
  return EventStoreDBClient.connectionString(`${url.split("?")[0]}?${searchParams}`);
}
