import { EventStoreDBClient } from "@eventstore/db-client";
import { StartError } from "../runtime/run-service.ts";

/**
 * Creates a client of the event log. The client connects on the first call.
 *
 * @param url EventStoreDB connection string: `esdb://host:port?tls=false` for one node, `esdb://a:2113,b:2113,c:2113`
 *   for a cluster, or `esdb+discover://name:2113` for a cluster whose nodes have one DNS name
 * @param connectionName name of the connection in the server's list of connections
 * @param setting setting that contains the URL, for error messages
 * @throws {StartError} if the client refuses the connection string, or a certificate file does not exist
 */
export function connectEventStore(url: string, connectionName: string, setting = "EVENTSTORE_URL"): EventStoreDBClient {
  // With these defaults, the client detects a dead connection within 15 seconds: the interval plus the timeout.
  const defaults = { keepAliveInterval: 10_000, keepAliveTimeout: 5_000, connectionName };
  const missingOptions = Object.entries(defaults)
    .filter(([name]) => !new RegExp(`[?&]${name}=`, "i").test(url))
    .map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  // KurrentDB is the new name of EventStoreDB. The client knows only the former scheme.
  const esdbUrl = url.replace(/^kurrentdb/, "esdb");
  try {
    return EventStoreDBClient.connectionString(`${esdbUrl}${url.includes("?") ? "&" : "?"}${missingOptions.join("&")}`);
  } catch (error) {
    throw new StartError(`${setting}: ${describeProblem(error as Error)}`, { cause: error });
  }
}

/** Describes why the client refused a connection string, without parts of the string, which may be secret. */
function describeProblem(error: Error): string {
  return "expected" in error ? `the connection string must contain ${error.expected}` : error.message;
}
