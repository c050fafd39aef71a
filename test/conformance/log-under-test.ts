/**
 * The log that the tests check: the server at EVENTSTORE_URL, or a new embedded log in a temporary directory if
 * EVENTSTORE_URL is not set. The server may already contain events, so every test uses its own stream names.
 */
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { END, EventStoreDBClient, jsonEvent, START } from "@eventstore/db-client";
import { startLogServer } from "../../deploy/local/eventstore/server.ts";

// Without this setting, gRPC sends loopback traffic through the proxy that the environment configures.
process.env.no_grpc_proxy = "127.0.0.1,localhost";

/** The server and the clients of a test suite. */
export class LogUnderTest {
  readonly url: string;
  readonly #clients: EventStoreDBClient[] = [];
  readonly #close: () => Promise<void>;

  private constructor(url: string, close: () => Promise<void>) {
    this.url = url;
    this.#close = close;
  }

  static async start(): Promise<LogUnderTest> {
    const url = process.env.EVENTSTORE_URL;
    if (url !== undefined && url !== "") return new LogUnderTest(url, () => Promise.resolve());
    const dir = await mkdtemp(join(tmpdir(), "conformance-log-"));
    const server = await startLogServer({ dir, host: "127.0.0.1", port: 0 });
    return new LogUnderTest(`esdb://127.0.0.1:${server.port}?tls=false`, async () => {
      await server.stop();
      await rm(dir, { recursive: true });
    });
  }

  /** Returns a client with its own connection. `parameter` is appended to the connection string. */
  createClient(urlParameter = ""): EventStoreDBClient {
    const separator = this.url.includes("?") ? "&" : "?";
    const client = EventStoreDBClient.connectionString(
      urlParameter === "" ? this.url : `${this.url}${separator}${urlParameter}`,
    );
    this.#clients.push(client);
    return client;
  }

  async stop(): Promise<void> {
    for (const client of this.#clients) await client.dispose();
    await this.#close();
  }
}

/** Returns a stream name that no other test or run uses. */
export function createStreamName(category = "conformance"): string {
  return `${category}-${randomUUID()}`;
}

/** Creates a small event with the number `n` in its data. */
export function createEvent(n: number, type = "Counted") {
  return jsonEvent({ type, data: { n }, metadata: { meta: n } });
}

/** Creates `count` events, numbered from 0. */
export function createEvents(count: number, type = "Counted") {
  return Array.from({ length: count }, (_, n) => createEvent(n, type));
}

/** Returns the error of a promise. Throws if the promise resolves. */
export async function getRejection(promise: Promise<unknown>): Promise<Error> {
  let resolvedValue: unknown;
  try {
    resolvedValue = await promise;
  } catch (error) {
    if (error instanceof Error) return error;
    throw new Error(`the promise rejected with a value that is not an Error: ${String(error)}`);
  }
  throw new Error(`the promise should reject, but resolved with ${String(resolvedValue)}`);
}

/** Returns all values of an async iterable. */
export async function collect<T>(iterable: AsyncIterable<T>): Promise<T[]> {
  const values: T[] = [];
  for await (const value of iterable) values.push(value);
  return values;
}

/** Returns the position of the last event of the log. */
export async function findLogEnd(client: EventStoreDBClient) {
  const [lastEvent] = await collect(client.readAll({ direction: "backwards", fromPosition: END, maxCount: 1 }));
  return lastEvent?.event?.position ?? START;
}
