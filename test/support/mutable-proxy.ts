import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** Stands before a server and can fall silent, as a machine does that is gone: nothing is closed, nothing answered. */
export interface MutableProxy {
  /** The server's URL, as callers of the proxy see it. */
  url: string;
  mute(): void;
  close(): Promise<void>;
}

/** @param url of the server, with host and port */
export async function startMutableProxy(url: string): Promise<MutableProxy> {
  const { hostname, port } = new URL(url);
  const sockets = new Set<Socket>();
  let muted = false;
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined).on("close", () => sockets.delete(socket));
    if (muted) socket.pause();
  };
  const proxy = createServer((caller) => {
    keep(caller);
    if (muted) return;
    const server = connect(Number(port), hostname);
    keep(server);
    caller.pipe(server).pipe(caller);
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const own = new URL(url);
  own.host = `127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  return {
    url: own.href,
    mute() {
      muted = true;
      for (const socket of sockets) socket.unpipe().pause();
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      proxy.close();
      await once(proxy, "close");
    },
  };
}
