import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** Stands before a server, and can be slow, silent or closed. */
export interface MutableProxy {
  /** The server's URL, as callers of the proxy see it. */
  url: string;
  /** Stops forwarding without closing connections, as if the machine had disappeared. */
  mute(): void;
  /** Passes all further answers of the server on so much later. Milliseconds. */
  delay(milliseconds: number): void;
  /** Breaks all connections and refuses new ones, until `mend`. */
  cut(): void;
  mend(): void;
  close(): Promise<void>;
}

/** @param url of the server, with host and port */
export async function startMutableProxy(url: string): Promise<MutableProxy> {
  const { hostname, port } = new URL(url);
  const sockets = new Set<Socket>();
  let state: "open" | "muted" | "cut" = "open";
  let late = 0;
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined).on("close", () => sockets.delete(socket));
    if (state === "muted") socket.pause();
  };
  const proxy = createServer((caller) => {
    keep(caller);
    if (state === "cut") caller.destroy();
    if (state !== "open") return;
    const server = connect(Number(port), hostname);
    keep(server);
    caller.pipe(server);
    let passedOn = Promise.resolve();
    server.on("data", (bytes) => {
      if (state === "muted") return;
      const at = performance.now() + late;
      // One after the other, so that a shorter delay overtakes no answer.
      passedOn = passedOn
        .then(() => sleep(Math.max(0, at - performance.now())))
        .then(() => void caller.write(bytes));
    });
    server.on("close", () => caller.destroy());
    caller.on("close", () => server.destroy());
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const own = new URL(url);
  own.host = `127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const cut = () => {
    state = "cut";
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: own.href,
    mute() {
      state = "muted";
      for (const socket of sockets) socket.unpipe().pause();
    },
    delay(milliseconds) {
      late = milliseconds;
    },
    cut,
    mend() {
      state = "open";
    },
    async close() {
      cut();
      proxy.close();
      await once(proxy, "close");
    },
  };
}
