import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { StartError } from "../runtime/run-service.ts";
import { answerClientErrors, requireHost } from "./client-errors.ts";
import { NoSniffingResponse } from "./no-sniffing.ts";

/** An HTTP server that listens, and how to close it. */
export interface Listening {
  url: string;
  /** Takes no more connections, lets the requests under way finish, then cuts what is left. */
  close(): Promise<void>;
}

/** How slow a client may be. Milliseconds. */
export interface Patience {
  /** A request whose headers have not arrived within this is answered 408… */
  headersWithin: number;
  /** …and one that is not complete within this, too. */
  requestWithin: number;
}

const PATIENCE: Patience = { headersWithin: 10_000, requestWithin: 20_000 };

/** Node looks for slow clients so often, and finds them up to so much later. Milliseconds. */
const LOOK_EVERY = 1_000;

/**
 * Listens on an address.
 *
 * @param drainWithin how long requests under way at a close may take to finish. Milliseconds
 * @param patience how slow a client may be; slower ones are answered 408
 * @throws {StartError} where the port is taken or not ours to take
 */
export async function listen(
  handler: RequestListener,
  host: string,
  port: number,
  drainWithin = 5_000,
  patience = PATIENCE,
): Promise<Listening> {
  const lookEvery = Math.min(LOOK_EVERY, patience.headersWithin / 2, patience.requestWithin / 2);
  const server = createServer(
    {
      headersTimeout: patience.headersWithin - lookEvery,
      requestTimeout: patience.requestWithin - lookEvery,
      connectionsCheckingInterval: lookEvery,
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
      const cut = setTimeout(() => server.closeAllConnections(), drainWithin);
      await closed;
      clearTimeout(cut);
    },
  };
}
