import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import type Koa from "koa";
import { pause } from "../runtime/backoff.ts";
import type { Config } from "../runtime/config.ts";
import { type RunningService, StartError } from "../runtime/run-service.ts";
import { settlesWithin } from "../runtime/timeout.ts";
import { requireHost, respondToClientErrors } from "./client-errors.ts";
import { createDrainableHandler } from "./drain.ts";
import { NoSniffingResponse } from "./no-sniffing.ts";

/** A listening HTTP server. */
export interface HttpServer {
  url: string;
  /** Makes `/health/ready` return 503, and lets every response close its connection. All requests are still handled. */
  startDrain(): void;
  /** Starts to drain, refuses new connections, waits for requests in progress, then closes the remaining connections. */
  close(): Promise<void>;
}

/** Time limits for slow clients, after which the server returns 408. Milliseconds. */
export interface ClientTimeouts {
  /** Time limit for receiving the headers of a request. */
  headersTimeoutMs: number;
  /** Time limit for receiving a complete request. */
  requestTimeoutMs: number;
}

const DEFAULT_CLIENT_TIMEOUTS: ClientTimeouts = { headersTimeoutMs: 10_000, requestTimeoutMs: 20_000 };

/** Interval between Node's checks for slow clients. A slow client is detected up to one interval late. Milliseconds. */
const CHECK_INTERVAL_MS = 1_000;

/** Time limit for closing a service's connections when it stops, because a server may not respond. Milliseconds. */
const CLOSE_TIMEOUT_MS = 2_000;

/**
 * Starts an HTTP server on an address.
 *
 * @param drainTimeoutMs time limit in milliseconds for requests that are in progress when the server closes
 * @param timeouts time limits for slow clients
 * @throws {StartError} if the port is in use or not permitted
 */
export async function listen(
  handler: RequestListener,
  host: string,
  port: number,
  drainTimeoutMs = 5_000,
  timeouts = DEFAULT_CLIENT_TIMEOUTS,
): Promise<HttpServer> {
  const checkIntervalMs = Math.min(CHECK_INTERVAL_MS, timeouts.headersTimeoutMs / 2, timeouts.requestTimeoutMs / 2);
  const { handle, startDrain } = createDrainableHandler(handler);
  const server = createServer(
    {
      headersTimeout: timeouts.headersTimeoutMs - checkIntervalMs,
      requestTimeout: timeouts.requestTimeoutMs - checkIntervalMs,
      connectionsCheckingInterval: checkIntervalMs,
      maxHeaderSize: 32_768,
      requireHostHeader: false,
      ServerResponse: NoSniffingResponse,
    },
    requireHost(handle),
  );
  respondToClientErrors(server);
  server.listen(port, host);
  try {
    await once(server, "listening");
  } catch (error) {
    throw new StartError(`cannot listen on ${host}:${port}; check HOST and PORT`, { cause: error });
  }
  const { port: actualPort } = server.address() as AddressInfo;
  return {
    url: `http://${host}:${actualPort}`,
    startDrain,
    async close() {
      startDrain();
      const closePromise = once(server, "close");
      server.close();
      server.closeIdleConnections();
      const drainTimer = setTimeout(() => server.closeAllConnections(), drainTimeoutMs);
      await closePromise;
      clearTimeout(drainTimer);
    },
  };
}

/**
 * Serves an application on the configured address. When the service stops, it closes the server and then the
 * connections that requests use.
 *
 * @throws {StartError} if the port is in use or not permitted
 */
export async function serve<State>(
  app: Koa<State>,
  { HOST, PORT, DRAIN_DELAY_MS }: Config<"HOST" | "PORT" | "DRAIN_DELAY_MS">,
  closeConnections: () => Promise<unknown>,
): Promise<RunningService> {
  const server = await listen(app.callback(), HOST, PORT);
  return {
    url: server.url,
    async drain(signal) {
      server.startDrain();
      await pause(DRAIN_DELAY_MS, signal);
    },
    async stop() {
      await server.close();
      await settlesWithin(closeConnections(), CLOSE_TIMEOUT_MS);
    },
  };
}
