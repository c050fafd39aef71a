/**
 * Server of the embedded log. It speaks EventStoreDB's gRPC protocol with @eventstore/db-client. README.md lists the
 * guarantees, the limits and the parts of the protocol that it does not support.
 */
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { type LogBounds, MAX_MESSAGE_BYTES } from "./model/limits.ts";
import { LogStartError } from "./model/log-errors.ts";
import { OpenCalls } from "./protocol/calls.ts";
import { unavailable } from "./protocol/errors.ts";
import { addServices } from "./protocol/service.ts";
import { Store } from "./store/store.ts";

export interface LogServerOptions {
  /** Directory of the log. Created if it does not exist. */
  readonly dir: string;
  readonly host: string;
  /** 0 takes a free port. */
  readonly port: number;
  /** If true, the default, an append is flushed to disk before it is answered. Only benchmarks turn this off. */
  readonly sync?: boolean;
  /** Receives lines for the operator, and the details of failures that callers see only in general terms. */
  readonly log?: (line: string) => void;
  /** Limits of the whole log. Tests make them small. */
  readonly bounds?: LogBounds;
}

export interface LogServer {
  readonly port: number;
  /** Resolves with the reason if the disk fails. The log then refuses all writes and must be stopped. */
  readonly failed: Promise<Error>;
  /** Answers the queued appends, ends all calls with UNAVAILABLE and closes the log. */
  stop(): Promise<void>;
}

/** Time limit for ended calls to send their remaining data. Milliseconds. */
const SHUTDOWN_TIMEOUT_MS = 500;

/**
 * Starts the log.
 *
 * @throws LogStartError with one line if the directory or the port cannot be used
 * @throws LogDamagedError with one line if acknowledged data is missing or changed
 */
export async function startLogServer(options: LogServerOptions): Promise<LogServer> {
  const store = await Store.open(options);
  const server = new Server({ "grpc.max_receive_message_length": MAX_MESSAGE_BYTES });
  const calls = new OpenCalls();
  let port = options.port;
  addServices(server, { store, calls, log: options.log ?? (() => undefined), port: () => port });
  try {
    port = await bind(server, options.host, options.port);
  } catch (error) {
    await store.close();
    throw error;
  }
  let stopping: Promise<void> | undefined;
  return {
    port,
    failed: store.failed,
    stop: () => {
      stopping ??= stop(server, store, calls);
      return stopping;
    },
  };
}

async function stop(server: Server, store: Store, calls: OpenCalls): Promise<void> {
  await store.closeToWrites();
  // The answers of the last group are sent in the next turn of the event loop.
  await new Promise((resolve) => setImmediate(resolve));
  calls.endAll(unavailable("The log is shutting down."));
  await new Promise<void>((resolve) => {
    const timer = setTimeout(() => {
      server.forceShutdown();
      resolve();
    }, SHUTDOWN_TIMEOUT_MS);
    server.tryShutdown(() => {
      clearTimeout(timer);
      resolve();
    });
  });
  await store.close();
}

function bind(server: Server, host: string, port: number): Promise<number> {
  const address = host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
  return new Promise((resolve, reject) => {
    server.bindAsync(address, ServerCredentials.createInsecure(), (error, bound) => {
      if (error === null) return resolve(bound);
      const inUse = error.message.includes("EADDRINUSE");
      const reason = inUse
        ? `Port ${port} on ${host} is in use. Choose another port with --port.`
        : `Cannot listen on ${address}: ${error.message}`;
      reject(new LogStartError(reason.replaceAll("\n", " "), { cause: error }));
    });
  });
}
