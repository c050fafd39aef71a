/**
 * The log under test: the server that EVENTSTORE_URL names, or else a new embedded log in a temporary directory. The suite is
 * the same for both, so every test uses its own stream names and no test assumes an empty log.
 */

import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { END, EventStoreDBClient, jsonEvent, START } from "@eventstore/db-client";
import { startLogServer } from "../../deploy/local/eventstore/server.ts";

// Otherwise the client would send loopback traffic to the proxy of the environment.
process.env.no_grpc_proxy = "127.0.0.1,localhost";

/** The clients of a suite, and its embedded server, if any. */
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
  client(parameter = ""): EventStoreDBClient {
    const separator = this.url.includes("?") ? "&" : "?";
    const client = EventStoreDBClient.connectionString(
      parameter === "" ? this.url : `${this.url}${separator}${parameter}`,
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
export function newStream(category = "conformance"): string {
  return `${category}-${randomUUID()}`;
}

/** Returns a small event. */
export function event(n: number, type = "Counted") {
  return jsonEvent({ type, data: { n }, metadata: { meta: n } });
}

/** Returns the events 0 to count - 1. */
export function events(count: number, type = "Counted") {
  return Array.from({ length: count }, (_, n) => event(n, type));
}

/** Returns the error of a rejected promise; fails if the promise resolves. */
export async function rejection(promise: Promise<unknown>): Promise<Error> {
  let value: unknown;
  try {
    value = await promise;
  } catch (error) {
    if (error instanceof Error) return error;
    throw new Error(`rejected with something that is no error: ${String(error)}`);
  }
  throw new Error(`should have rejected, resolved with ${String(value)}`);
}

/** Returns all values of an iteration. */
export async function collect<T>(iteration: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of iteration) items.push(item);
  return items;
}

/** Waits until a condition holds. After ten seconds, fails with the description. */
export async function eventually(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 10_000;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`waited ten seconds for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Returns the last position of the log. */
export async function endOfLog(client: EventStoreDBClient) {
  const [last] = await collect(client.readAll({ direction: "backwards", fromPosition: END, maxCount: 1 }));
  return last?.event?.position ?? START;
}
