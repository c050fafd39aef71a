import { EventStoreDBClient } from "@eventstore/db-client";

/**
 * Creates a client of the event log. It connects on the first call.
 *
 * @param url EventStoreDB connection string, `esdb://host:port?tls=false`
 * @param connectionName name of the connection, shown by the server
 */
export function connectEventStore(url: string, connectionName: string): EventStoreDBClient {
  const { searchParams } = new URL(url);
  // A dead connection is detected within the sum of both values, unless the URL sets others.
  if (!searchParams.has("keepAliveInterval")) searchParams.set("keepAliveInterval", "10000");
  if (!searchParams.has("keepAliveTimeout")) searchParams.set("keepAliveTimeout", "5000");
  if (!searchParams.has("connectionName")) searchParams.set("connectionName", connectionName);
  return EventStoreDBClient.connectionString(`${url.split("?")[0]}?${searchParams}`);
}
