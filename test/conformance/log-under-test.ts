/**
 * The log under test: the server at EVENTSTORE_URL, or by default a new embedded log in a temporary directory. The
 * server may contain events, so every test uses its own stream names.
 */
import { randomUUID } from "node:crypto";
import { END, EventStoreDBClient, jsonEvent, START } from "@eventstore/db-client";
import { startSeparateLog } from "../support/own-log.ts";
import { releaseLater, useResource } from "../support/resources.ts";

// Without this setting, gRPC sends loopback traffic through the proxy that the environment configures.
process.env.no_grpc_proxy = "127.0.0.1,localhost";

/** The log of a test suite. `client` is undefined until the suite's hooks have run. */
export interface LogUnderTest {
  client: EventStoreDBClient;
  /** Returns a client with its own connection. @param parameter query parameter for the connection string */
  createClient(parameter?: string): EventStoreDBClient;
}

export function useLog(): LogUnderTest {
  return useResource(async () => {
    const url = process.env.EVENTSTORE_URL || (await startSeparateLog({ shouldSync: true })).eventstoreUrl;
    const createClient = (parameter = "") => {
      const separator = parameter && (url.includes("?") ? "&" : "?");
      const client = EventStoreDBClient.connectionString(url + separator + parameter);
      releaseLater(() => client.dispose());
      return client;
    };
    return { client: createClient(), createClient };
  });
}

/** Returns a unique stream name. */
export function createStreamName(category = "conformance"): string {
  return `${category}-${randomUUID()}`;
}

export function createEvent(n: number, type = "Counted") {
  return jsonEvent({ type, data: { n }, metadata: { meta: n } });
}

export function createEvents(count: number, type = "Counted") {
  return Array.from({ length: count }, (_, n) => createEvent(n, type));
}

export async function collect<T>(iterable: AsyncIterable<T>): Promise<T[]> {
  const values: T[] = [];
  for await (const value of iterable) values.push(value);
  return values;
}

/** Returns the position of the last event; START if the log is empty. */
export async function findLogEnd(client: EventStoreDBClient) {
  const [lastEvent] = await collect(client.readAll({ direction: "backwards", fromPosition: END, maxCount: 1 }));
  return lastEvent?.event?.position ?? START;
}
