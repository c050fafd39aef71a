import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { StartError } from "../runtime/run-service.ts";
import { answerClientErrors, requireHost } from "./client-errors.ts";
import { NoSniffingResponse } from "./no-sniffing.ts";

/** An HTTP server that listens, and how to close it. */
export interface HttpServer {
  url: string;
  /** Takes no more connections, lets the requests under way finish, then cuts what is left. */
  close(): Promise<void>;
}

/** How slow a client may be. Milliseconds. */
export interface ClientTimeouts {
  /** A request whose headers have not arrived within this is answered 408… */
  headersMs: number;
  /** …and one that is not complete within this, too. */
  requestMs: number;
}

const CLIENT_TIMEOUTS: ClientTimeouts = { headersMs: 10_000, requestMs: 20_000 };

/** Node looks for slow clients so often, and finds them up to so much later. Milliseconds. */
const CHECK_INTERVAL_MS = 1_000;

/**
 * Listens on an address.
 *
 * @param drainTimeoutMs how long requests under way at a close may take to finish. Milliseconds
 * @param timeouts how slow a client may be; slower ones are answered 408
 * @throws {StartError} where the port is taken or not ours to take
 */
export async function listen(
  handler: RequestListener,
  host: string,
  port: number,
  drainTimeoutMs = 5_000,
  timeouts = CLIENT_TIMEOUTS,
): Promise<HttpServer> {
  const checkIntervalMs = Math.min(CHECK_INTERVAL_MS, timeouts.headersMs / 2, timeouts.requestMs / 2);
  const server = createServer(
    {
      headersTimeout: timeouts.headersMs - checkIntervalMs,
      requestTimeout: timeouts.requestMs - checkIntervalMs,
      connectionsCheckingInterval: checkIntervalMs,
      maxHeaderSize: 32_768,
      requireHostHeader: false,
      ServerResponse: NoSniffingResponse,
    },
    requireHost(handler),
  );
  answerClientErrors(server);
  server.listen(port, host);
  try {
    await once(server, "listening");
  } catch (error) {
    throw new StartError(`cannot listen on ${host}:${port}`, { cause: error });
  }
  const { port: bound } = server.address() as AddressInfo;
  return {
    url: `http://${host}:${bound}`,
    async close() {
      const closed = once(server, "close");
      server.close();
      server.closeIdleConnections();
      const cut = setTimeout(() => server.closeAllConnections(), drainTimeoutMs);
      await closed;
      clearTimeout(cut);
    },
  };
}
