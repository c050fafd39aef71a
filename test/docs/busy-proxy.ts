import { createServer, request } from "node:http";
import { listenOnLoopback } from "../support/loopback.ts";

/** Additional faults of {@link startBusyProxy}. `path` has no query. */
export interface ProxyFaults {
  /** Returns a response that replaces the service's response; undefined to forward the request. */
  refuse?(method: string, path: string): { status: number; error: string } | undefined;
  /** Called when the service has responded, before the response is passed on. */
  beforeResponse?(method: string, path: string): Promise<void> | void;
}

export interface BusyProxy {
  url: string;
  close(): Promise<void>;
}

/**
 * Starts a proxy to the service that acts like an overloaded ingress. It responds with 503 to the first request with
 * each idempotency key, and forwards all other requests. So a client must repeat requests with the same key.
 *
 * @param targetUrl origin of the service
 */
export async function startBusyProxy(targetUrl: string, faults: ProxyFaults = {}): Promise<BusyProxy> {
  const knownKeys = new Set<string>();
  const server = createServer((clientRequest, clientResponse) => {
    const { method = "GET", url = "", headers } = clientRequest;
    const requestUrl = new URL(url, targetUrl);
    const refusal = faults.refuse?.(method, requestUrl.pathname);
    if (refusal) {
      const { status, error } = refusal;
      clientRequest.resume();
      clientResponse.writeHead(status, { "Content-Type": "application/json", "Retry-After": "1" });
      clientResponse.end(JSON.stringify({ ok: false, error }));
      return;
    }
    const key = headers["idempotency-key"];
    if (typeof key === "string" && !knownKeys.has(key)) {
      knownKeys.add(key);
      clientRequest.resume();
      clientResponse.writeHead(503, { "Retry-After": "0" }).end("{}");
      return;
    }
    const serviceRequest = request(requestUrl, { method, headers }, async (response) => {
      await faults.beforeResponse?.(method, requestUrl.pathname);
      clientResponse.writeHead(response.statusCode ?? 502, response.headers);
      response.pipe(clientResponse);
    });
    serviceRequest.on("error", () => clientResponse.destroy());
    clientRequest.pipe(serviceRequest);
  });
  const { host, close } = await listenOnLoopback(server);
  return { url: `http://${host}`, close };
}
