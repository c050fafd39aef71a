import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * A TCP proxy in front of a server. A test can delay the server's responses, stop all traffic, or close the
 * connections.
 */
export interface FaultProxy {
  /** URL of the proxy, with the scheme, path and query of the server's URL. */
  url: string;
  /** Stops forwarding, but closes no connection, as if the machine had disappeared. */
  mute(): void;
  /** Delays all later responses of the server by this number of milliseconds. */
  delay(milliseconds: number): void;
  /** Closes all connections and refuses new ones until `restore` is called. */
  disconnect(): void;
  /** Accepts and forwards new connections again. */
  restore(): void;
  close(): Promise<void>;
}

/** @param url URL of the server, with host and port */
export async function startFaultProxy(url: string): Promise<FaultProxy> {
  const { hostname, port } = new URL(url);
  const sockets = new Set<Socket>();
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
    clientSocket.on("close", () => serverSocket.destroy());
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const proxyUrl = new URL(url);
  proxyUrl.host = `127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const disconnect = () => {
    proxyState = "disconnected";
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: proxyUrl.href,
    mute() {
      proxyState = "muted";
      for (const socket of sockets) socket.unpipe().pause();
    },
    delay(milliseconds) {
      delayMs = milliseconds;
    },
    disconnect,
    restore() {
      proxyState = "open";
    },
    async close() {
      disconnect();
      proxy.close();
      await once(proxy, "close");
    },
  };
}
