import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { StartError } from "../runtime/run-service.ts";
import { answerClientErrors } from "./client-errors.ts";

/** An HTTP server that listens, and how to close it. */
export interface Listening {
  url: string;
  /** Takes no more connections, lets the requests under way finish, then cuts what is left. */
  close(): Promise<void>;
}

/** A request must have arrived whole within this, headers within the first. Milliseconds. */
const HEADERS_WITHIN = 10_000;
const REQUEST_WITHIN = 20_000;

/** Requests under way at a close have this long to finish. Milliseconds. */
const DRAIN_WITHIN = 5_000;

/**
 * Listens on an address.
 *
 * @throws {StartError} where the port is taken or not ours to take
 */
export async function listen(handler: RequestListener, host: string, port: number): Promise<Listening> {
  const server = createServer(
    { headersTimeout: HEADERS_WITHIN, requestTimeout: REQUEST_WITHIN, maxHeaderSize: 32_768 },
    handler,
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
      const cut = setTimeout(() => server.closeAllConnections(), DRAIN_WITHIN);
      await closed;
      clearTimeout(cut);
    },
  };
}
