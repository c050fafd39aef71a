/** A partner's webhook receiver: a real server on loopback with configurable answers. It records all requests. */
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** The receiver's reaction to one request. */
export interface Reaction {
  status?: number;
  headers?: Record<string, string>;
  body?: string | Uint8Array;
  /** Before the answer begins. Milliseconds. */
  delayMs?: number;
  /**
   * `drip`: a byte of body every 20 ms, without end. `flood`: body as fast as it is read, without end. `hang`: no
   * answer at all. `close`: the connection is cut instead of an answer. `hold`: the answer waits for a release.
   */
  mode?: "drip" | "flood" | "hang" | "close" | "hold";
}

export interface ReceivedRequest {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
  /** Status of the answer; undefined if there was none. */
  status: number | undefined;
  /** Of the sender's end of the connection. */
  senderPort: number | undefined;
  /** Milliseconds since 1970. */
  at: number;
}

export interface Receiver {
  url: string;
  port: number;
  requests: ReceivedRequest[];
  /** Requests that were open at once, at the most. */
  maxConcurrentRequests(): number;
  /** Uses each of these reactions for one of the next requests, and then the default reaction again. */
  next(...behaviours: Reaction[]): void;
  /** Does this with every request from now on, or with those of one path; 200 at first. */
  always(behaviour: Reaction, path?: string): void;
  /** Requests that are held now. */
  held(): number;
  /** Answers the requests that are held now. */
  release(): void;
  /** The requests of a delivery, in order. */
  of(deliveryId: string): ReceivedRequest[];
  close(): Promise<void>;
}

/** @param port 0 takes a free one */
export async function startReceiver(port = 0): Promise<Receiver> {
  const requests: ReceivedRequest[] = [];
  const queue: Reaction[] = [];
  let usual: Reaction = {};
  const usualAt = new Map<string, Reaction>();
  const held = new Set<() => void>();
  let open = 0;
  let most = 0;
  const server = createServer((request, response) => {
    open += 1;
    most = Math.max(most, open);
    response.once("close", () => {
      open -= 1;
    });
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("error", () => undefined);
    request.on("end", () => {
      const behaviour = queue.shift() ?? usualAt.get(request.url ?? "") ?? usual;
      const silent = behaviour.mode === "hang" || behaviour.mode === "close";
      requests.push({
        method: request.method ?? "",
        path: request.url ?? "",
        headers: request.headers,
        body: Buffer.concat(chunks).toString("utf8"),
        status: silent ? undefined : (behaviour.status ?? 200),
        senderPort: request.socket.remotePort,
        at: Date.now(),
      });
      if (behaviour.mode !== "hold") {
        setTimeout(() => respond(response, behaviour), behaviour.delayMs ?? 0);
        return;
      }
      const { mode: _, ...released } = behaviour;
      const release = () => respond(response, released);
      held.add(release);
      response.once("close", () => held.delete(release));
    });
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  const bound = (server.address() as AddressInfo).port;
  return {
    url: `http://127.0.0.1:${bound}`,
    port: bound,
    requests,
    maxConcurrentRequests: () => most,
    next: (...behaviours) => queue.push(...behaviours),
    always: (behaviour, path) => {
      if (path === undefined) usual = behaviour;
      else usualAt.set(path, behaviour);
    },
    held: () => held.size,
    release() {
      for (const release of held) release();
      held.clear();
    },
    of: (deliveryId) => requests.filter(({ headers }) => headers["webhook-id"] === deliveryId),
    close: () => closeServer(server),
  };
}

async function closeServer(server: Server): Promise<void> {
  const closed = once(server, "close");
  server.close();
  server.closeAllConnections();
  await closed;
}

function respond(
  response: ServerResponse,
  { status = 200, headers = {}, body = "ok", mode }: Reaction,
): void {
  if (response.destroyed || mode === "hang") return;
  if (mode === "close") {
    response.destroy();
    return;
  }
  response.writeHead(status, { "Content-Type": "text/plain", ...headers });
  if (mode === "drip") {
    const timer = setInterval(() => response.write("."), 20);
    response.once("close", () => clearInterval(timer));
  } else if (mode === "flood") {
    const chunk = "x".repeat(65_536);
    const pour = () => {
      while (!response.destroyed && response.write(chunk));
      if (!response.destroyed) response.once("drain", pour);
    };
    pour();
  } else {
    response.end(body);
  }
}
