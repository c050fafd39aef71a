import type { RequestListener, ServerResponse } from "node:http";

/** Request handler of a server that can drain. */
export interface DrainableHandler {
  handle: RequestListener;
  /**
   * Starts to drain. From then on, `/health/ready` returns 503, and every response closes its connection. Load balancers
   * and clients with open connections therefore move to other processes. All requests are still handled.
   */
  startDrain(): void;
}

/** Body of `/health/ready` while a server drains. */
const STOPPING_BODY = JSON.stringify({ ok: false, parts: { process: "stopping" } });

/** Wraps the request handler of a server, so that the server can drain before it stops. */
export function createDrainableHandler(handler: RequestListener): DrainableHandler {
  const openResponses = new Set<ServerResponse>();
  let isDraining = false;
  return {
    handle(request, response) {
      openResponses.add(response);
      response.on("close", () => openResponses.delete(response));
      if (!isDraining) return handler(request, response);
      response.shouldKeepAlive = false;
      if (request.url?.split("?")[0] === "/health/ready") sendStopping(response);
      else handler(request, response);
    },
    startDrain() {
      isDraining = true;
      for (const response of openResponses) closeAfter(response);
    },
  };
}

/** Lets a response close its connection, even if its headers have already been sent. */
function closeAfter(response: ServerResponse): void {
  response.shouldKeepAlive = false;
  const { socket } = response.req;
  if (response.headersSent) response.once("finish", () => socket.end());
}

function sendStopping(response: ServerResponse): void {
  response
    .writeHead(503, { "Content-Type": "application/json; charset=utf-8", "Cache-Control": "no-store" })
    .end(STOPPING_BODY);
}
