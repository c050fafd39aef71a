import { EventStoreDBClient } from "@eventstore/db-client";

/**
 * Creates a client of the event log. The client connects on the first call.
 *
 * @param url EventStoreDB connection string, `esdb://host:port?tls=false`
 * @param connectionName name of the connection in the server's list of connections
 */
export function connectEventStore(url: string, connectionName: string): EventStoreDBClient {
  const { searchParams } = new URL(url);
  // With these defaults, the client detects a dead connection within 15 seconds: the interval plus the timeout.
  if (!searchParams.has("keepAliveInterval")) searchParams.set("keepAliveInterval", "10000");
  if (!searchParams.has("keepAliveTimeout")) searchParams.set("keepAliveTimeout", "5000");
  if (!searchParams.has("connectionName")) searchParams.set("connectionName", connectionName);
  return EventStoreDBClient.connectionString(`${url.split("?")[0]}?${searchParams}`);
}
