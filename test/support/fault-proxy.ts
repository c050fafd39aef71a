import { connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { listenOnLoopback } from "./loopback.ts";

/** A TCP proxy to a server. A test can delay responses, stop all traffic, or close the connections. */
export interface FaultProxy {
  /** The server's URL with the proxy's host and port. */
  url: string;
  /** Stops forwarding without closing connections, as if the machine had disappeared. */
  mute(): void;
  /**
   * Sends HTTP/2 GOAWAY to the clients, as a load balancer does, so that they use new connections for new calls. Then
   * stops forwarding on the old connections.
   */
  replaceConnections(): void;
  /** Delays all later responses of the server. */
  delay(milliseconds: number): void;
  /** Closes all connections and refuses new ones until `restore` is called. */
  disconnect(): void;
  /** Accepts and forwards new connections again. */
  restore(): void;
  close(): Promise<void>;
}

/** HTTP/2 GOAWAY frame without an error and with the highest stream id, so that started calls may continue. */
const GOAWAY_FRAME = Buffer.from("0000080700000000007fffffff00000000", "hex");

/** @param url URL of the server, with host and port */
export async function startFaultProxy(url: string): Promise<FaultProxy> {
  const { hostname, port } = new URL(url);
  const sockets = new Set<Socket>();
  const clientSockets = new Set<Socket>();
  let proxyState: "open" | "muted" | "disconnected" = "open";
  let delayMs = 0;
  const trackSocket = (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined).on("close", () => sockets.delete(socket));
    if (proxyState === "muted") socket.pause();
  };
  const proxy = createServer((clientSocket) => {
    trackSocket(clientSocket);
    if (proxyState === "disconnected") clientSocket.destroy();
    if (proxyState !== "open") return;
    clientSockets.add(clientSocket);
    const serverSocket = connect(Number(port), hostname);
    trackSocket(serverSocket);
    clientSocket.pipe(serverSocket);
    let queue = Promise.resolve();
    serverSocket.on("data", (bytes) => {
      if (proxyState === "muted") return;
      const dueAt = performance.now() + delayMs;
      // Chunks are written in order, even if the delay decreases between them.
      queue = queue
        .then(() => sleep(Math.max(0, dueAt - performance.now())))
        .then(() => void clientSocket.write(bytes));
    });
    serverSocket.on("close", () => clientSocket.destroy());
    clientSocket.on("close", () => {
      clientSockets.delete(clientSocket);
      serverSocket.destroy();
    });
  });
  const { host, close } = await listenOnLoopback(proxy);
  const proxyUrl = new URL(url);
  proxyUrl.host = host;
  const disconnect = () => {
    proxyState = "disconnected";
    for (const socket of sockets) socket.destroy();
  };
  const stopForwarding = () => {
    for (const socket of sockets) socket.unpipe().pause();
  };
  return {
    url: proxyUrl.href,
    mute() {
      proxyState = "muted";
      stopForwarding();
    },
    replaceConnections() {
      for (const socket of clientSockets) socket.write(GOAWAY_FRAME);
      stopForwarding();
    },
    delay(milliseconds) {
      delayMs = milliseconds;
    },
    disconnect,
    restore() {
      proxyState = "open";
    },
    close,
  };
}
