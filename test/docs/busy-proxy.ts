import { once } from "node:events";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";

/** A proxy in front of the service that refuses some requests, as an overloaded ingress does. */
export interface BusyProxy {
  url: string;
  close(): Promise<void>;
}

/**
 * Starts a proxy on a loopback port. It responds with 503 to the first request with each idempotency key, and forwards
 * all other requests. So a client succeeds only if it repeats a request with the same key.
 *
 * @param targetUrl origin of the service
 */
export async function startBusyProxy(targetUrl: string): Promise<BusyProxy> {
  const knownKeys = new Set<string>();
  const server = createServer((clientRequest, clientResponse) => {
    const { method, url, headers } = clientRequest;
    const key = headers["idempotency-key"];
    if (typeof key === "string" && !knownKeys.has(key)) {
      knownKeys.add(key);
      clientRequest.resume();
      clientResponse.writeHead(503, { "Retry-After": "0" }).end("{}");
      return;
    }
    const serviceRequest = request(new URL(url ?? "", targetUrl), { method, headers }, (response) => {
      clientResponse.writeHead(response.statusCode ?? 502, response.headers);
      response.pipe(clientResponse);
    });
    serviceRequest.on("error", () => clientResponse.destroy());
    clientRequest.pipe(serviceRequest);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      const closePromise = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closePromise;
    },
  };
}
