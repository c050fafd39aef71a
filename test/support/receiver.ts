import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import { listenOnLoopback } from "./loopback.ts";

/** The receiver's response to one request. */
export interface Reaction {
  status?: number;
  headers?: Record<string, string>;
  body?: string | Uint8Array;
  /** Delay of the response. Milliseconds. */
  delayMs?: number;
  /**
   * Replaces the normal response:
   *
   *     drip    sends one byte of an endless body every 20 ms
   *     flood   sends an endless body as fast as the client reads it
   *     hang    sends no response
   *     close   closes the connection without a response
   *     hold    delays the response until `release` is called
   */
  mode?: "drip" | "flood" | "hang" | "close" | "hold";
}

export interface ReceivedRequest {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
  /** Status of the response; undefined if the receiver sends no response. */
  status: number | undefined;
  /** Source port of the request. */
  senderPort: number | undefined;
  /** Time of arrival, in milliseconds since 1970. */
  receivedAtMs: number;
}

export interface Receiver {
  url: string;
  port: number;
  requests: ReceivedRequest[];
  /** Returns the maximum number of concurrent requests so far. */
  getMaxConcurrentRequests(): number;
  /** Sets the reactions to the next requests, one for each. Later requests get the default reaction. */
  queueReactions(...reactions: Reaction[]): void;
  /**
   * Sets the default reaction to all requests, or to requests with one path. Initially, the receiver responds with 200.
   */
  setDefaultReaction(reaction: Reaction, path?: string): void;
  /** Sets a function that chooses the reaction to each request, instead of all other reactions. */
  chooseReactions(choose: (request: Pick<ReceivedRequest, "headers" | "body">) => Reaction): void;
  /** Returns the number of requests whose response is on hold. */
  countHeldRequests(): number;
  /** Sends the responses that are on hold. */
  release(): void;
  /** Returns the requests of a delivery in order. */
  listDeliveryRequests(deliveryId: string): ReceivedRequest[];
  close(): Promise<void>;
}

/** @param port port to listen on; 0 selects a free port */
export async function startReceiver(port = 0): Promise<Receiver> {
  const requests: ReceivedRequest[] = [];
  const reactionQueue: Reaction[] = [];
  let defaultReaction: Reaction = {};
  const pathReactions = new Map<string, Reaction>();
  let chooseReaction: Parameters<Receiver["chooseReactions"]>[0] | undefined;
  const releaseFunctions = new Set<() => void>();
  let openRequestCount = 0;
  let maxOpenRequestCount = 0;
  const server = createServer((request, response) => {
    openRequestCount += 1;
    maxOpenRequestCount = Math.max(maxOpenRequestCount, openRequestCount);
    response.once("close", () => {
      openRequestCount -= 1;
    });
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("error", () => undefined);
    request.on("end", () => {
      const body = Buffer.concat(chunks).toString("utf8");
      const reaction =
        chooseReaction?.({ headers: request.headers, body }) ??
        reactionQueue.shift() ??
        pathReactions.get(request.url ?? "") ??
        defaultReaction;
      const isSilent = reaction.mode === "hang" || reaction.mode === "close";
      requests.push({
        method: request.method ?? "",
        path: request.url ?? "",
        headers: request.headers,
        body,
        status: isSilent ? undefined : (reaction.status ?? 200),
        senderPort: request.socket.remotePort,
        receivedAtMs: Date.now(),
      });
      if (reaction.mode !== "hold") {
        setTimeout(() => respond(response, reaction), reaction.delayMs ?? 0);
        return;
      }
      const { mode: _, ...releasedReaction } = reaction;
      const release = () => respond(response, releasedReaction);
      releaseFunctions.add(release);
      response.once("close", () => releaseFunctions.delete(release));
    });
  });
  const { port: boundPort, host, close } = await listenOnLoopback(server, port);
  return {
    url: `http://${host}`,
    port: boundPort,
    requests,
    getMaxConcurrentRequests: () => maxOpenRequestCount,
    queueReactions: (...reactions) => reactionQueue.push(...reactions),
    setDefaultReaction: (reaction, path) => {
      if (path === undefined) defaultReaction = reaction;
      else pathReactions.set(path, reaction);
    },
    chooseReactions(choose) {
      chooseReaction = choose;
    },
    countHeldRequests: () => releaseFunctions.size,
    release() {
      for (const release of releaseFunctions) release();
      releaseFunctions.clear();
    },
    listDeliveryRequests: (deliveryId) => requests.filter(({ headers }) => headers["webhook-id"] === deliveryId),
    close,
  };
}

function respond(response: ServerResponse, { status = 200, headers = {}, body = "ok", mode }: Reaction): void {
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
    const writeChunks = () => {
      while (!response.destroyed && response.write(chunk));
      if (!response.destroyed) response.once("drain", writeChunks);
    };
    writeChunks();
  } else {
    response.end(body);
  }
}
