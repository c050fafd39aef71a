import { EventStoreDBClient } from "@eventstore/db-client";
import { ServerUnavailableError, StartError } from "../runtime/run-service.ts";
import { prepareConnections } from "./grpc-client.ts";
import { isAccessDenied } from "./log.ts";
import { readWithin } from "./read-log.ts";

/**
 * Creates a client of the event log. The client connects on the first call.
 *
 * @param url EventStoreDB connection string: `esdb://host:port?tls=false` for one node, `esdb://a:2113,b:2113,c:2113`
 *   for a cluster, or `esdb+discover://name:2113` for a cluster whose nodes have one DNS name
 * @param connectionName name of the connection in the server's list of connections
 * @param setting name of the setting with the URL, for error messages
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
    const client = EventStoreDBClient.connectionString(
      `${esdbUrl}${url.includes("?") ? "&" : "?"}${missingOptions.join("&")}`,
    );
    prepareConnections(client);
    return client;
  } catch (error) {
    throw new StartError(`${setting}: ${describeProblem(error as Error)}`, { cause: error });
  }
}

/** Describes why the client refused a connection string, without parts of the string, which may be secret. */
function describeProblem(error: Error): string {
  return "expected" in error ? `the connection string must contain ${error.expected}` : error.message;
}

/**
 * Checks that the event log responds, by reading its first event.
 *
 * @throws {LogUnavailableError} if the log does not respond in time
 * @throws other errors of the client
 */
export async function reachEventStore(client: EventStoreDBClient, timeoutMs: number): Promise<void> {
  for await (const _ of readWithin(timeoutMs, client.readAll({ maxCount: 1, deadline: timeoutMs })));
}

/** Time limit for the first response of a running log, even on a busy machine. */
export const REACH_TIMEOUT_MS = 15_000;

/**
 * Requires that the event log responds. Called when a service starts.
 *
 * @throws {StartError} if the log denies access
 * @throws {ServerUnavailableError} if the log does not respond in time
 */
export async function requireEventStore(client: EventStoreDBClient, url: string): Promise<void> {
  try {
    await reachEventStore(client, REACH_TIMEOUT_MS);
  } catch (error) {
    const log = `the event log at ${removeSecrets(url)}`;
    throw isAccessDenied(error)
      ? new StartError(`${log} denies access; check the user in EVENTSTORE_URL, and that the user may read $all`, {
          cause: error,
        })
      : new ServerUnavailableError(`${log} does not respond; check EVENTSTORE_URL and that the log is running`, {
          cause: error,
        });
  }
}

/** Removes user, password and options from a connection string, because these parts may be secret. */
export function removeSecrets(url: string): string {
  return url.replace(/\?.*$/s, "").replace(/\/\/.*@/s, "//");
}
