/**
 * Server of the embedded log. It implements EventStoreDB's gRPC protocol, so clients use @eventstore/db-client.
 * README.md lists guarantees, limits and unsupported features.
 */
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { LogStartError } from "./model/log-errors.ts";
import { createUnavailableError } from "./protocol/errors.ts";
import { addServices, OpenCalls } from "./protocol/service.ts";
import { Store, type StoreOptions } from "./store/store.ts";

/**
 * Maximum size of a gRPC message. It exceeds MAX_APPEND_BYTES, so that an oversized append reaches the log, which
 * refuses it with a specific error.
 */
const MAX_MESSAGE_BYTES = 17 * 1024 * 1024;

interface LogServerOptions extends StoreOptions {
  readonly host: string;
  /** 0 selects a free port. */
  readonly port: number;
}

export interface LogServer {
  readonly port: number;
  /** Resolves with the error if the disk fails. The log then refuses all writes and must be stopped. */
  readonly failurePromise: Promise<Error>;
  /** Writes the queued appends, ends all calls with UNAVAILABLE and closes the log. */
  stop(): Promise<void>;
}

/** Maximum time for which a shutdown waits until ended calls have sent their remaining data. */
const SHUTDOWN_TIMEOUT_MS = 500;

/**
 * Opens the log and starts its server.
 *
 * @throws LogStartError if the directory or the port cannot be used
 * @throws LogDamagedError if acknowledged data is missing or changed
 */
export async function startLogServer(options: LogServerOptions): Promise<LogServer> {
  const store = await Store.open(options);
  const server = new Server({ "grpc.max_receive_message_length": MAX_MESSAGE_BYTES });
  const calls = new OpenCalls();
  addServices(server, store, calls);
  let port: number;
  try {
    port = await bindPort(server, options.host, options.port);
  } catch (error) {
    await store.close();
    throw error;
  }
  let stopPromise: Promise<void> | undefined;
  return {
    port,
    failurePromise: store.failurePromise,
    stop: () => {
      stopPromise ??= stopServer(server, store, calls);
      return stopPromise;
    },
  };
}

async function stopServer(server: Server, store: Store, calls: OpenCalls): Promise<void> {
  await store.closeToWrites();
  // gRPC needs one more turn of the event loop to send the responses of the last group.
  await new Promise((resolve) => setImmediate(resolve));
  calls.endAll(createUnavailableError("The log is shutting down."));
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

function bindPort(server: Server, host: string, port: number): Promise<number> {
  const address = host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
  return new Promise((resolve, reject) => {
    server.bindAsync(address, ServerCredentials.createInsecure(), (error, boundPort) => {
      if (error === null) return resolve(boundPort);
      const isPortInUse = error.message.includes("EADDRINUSE");
      const reason = isPortInUse
        ? `Port ${port} on ${host} is in use. Choose another port with --port.`
        : `Cannot listen on ${address}: ${error.message}`;
      reject(new LogStartError(reason.replaceAll("\n", " "), { cause: error }));
    });
  });
}
