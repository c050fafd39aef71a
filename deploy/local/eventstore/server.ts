/**
 * The embedded log: EventStoreDB's gRPC protocol for @eventstore/db-client on one machine, durable through
 * fsync with group commit, in segment files with checksums.
 *
 * It offers append (single and batched), reads and catch-up subscriptions of streams and of all streams,
 * filters, delete, tombstone, stream metadata with $tb and $maxCount, and a gossip of one member.
 *
 * It does not offer, and says so where it is asked:
 * - TLS, users and access control; credentials are ignored, so it belongs on loopback;
 * - projections, persistent subscriptions, links ($>), users, operations and monitoring calls;
 * - a cluster, or more than one process on one directory;
 * - the metadata $maxAge, $cacheControl and $acl, and metadata of metadata streams;
 * - deletion of metadata streams;
 * - scavenge: truncated and deleted events stay on disk and in reads of all streams;
 * - system events in reads of all streams, beside metadata and tombstones;
 * - .NET regular expressions: filters use JavaScript's, in Unicode mode, on the log's own thread;
 * - stream names with a NUL character, or longer than 4,096 bytes.
 */
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { type LogBounds, MAX_MESSAGE_BYTES } from "./model/limits.ts";
import { LogStartError } from "./model/log-errors.ts";
import { OpenCalls } from "./protocol/calls.ts";
import { unavailable } from "./protocol/errors.ts";
import { addServices } from "./protocol/service.ts";
import { Store } from "./store/store.ts";

export interface LogServerOptions {
  /** Directory of the log; made if it is not there. */
  readonly dir: string;
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** Whether an append is on disk before it is answered; true by default. Only measurements turn it off. */
  readonly sync?: boolean;
  /** Takes one line for each fact that an operator should know, and each failure that callers see in general terms. */
  readonly log?: (line: string) => void;
  /** Bounds of the whole log. Tests make them small. */
  readonly bounds?: LogBounds;
}

export interface LogServer {
  readonly port: number;
  /** Resolves with the reason if the disk fails; the log then takes no more writes and must be stopped. */
  readonly failed: Promise<Error>;
  /** Answers the appends that wait, ends all calls as unavailable and closes the log. */
  stop(): Promise<void>;
}

/** How long ended calls may take to send what they still hold. */
const SHUTDOWN_TIMEOUT_MS = 500;

/**
 * Starts the log.
 *
 * @throws LogStartError with one line if the directory or the port cannot be used
 * @throws LogDamaged with one line if stored events are missing or changed
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
  // The answers of the last group are written in the turn of the event loop that resolved them.
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
        ? `Port ${port} on ${host} is in use.`
        : `Cannot listen on ${address}: ${error.message}`;
      reject(new LogStartError(reason.replaceAll("\n", " "), { cause: error }));
    });
  });
}
