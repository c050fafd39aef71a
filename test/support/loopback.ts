import { once } from "node:events";
import type { AddressInfo, Server, Socket } from "node:net";
import { releaseLater } from "./resources.ts";

/**
 * Makes a server listen on loopback, by default on a free port.
 *
 * @returns host and port, and a function that closes the server and its connections
 */
export async function listenOnLoopback(server: Server, port = 0, address = "127.0.0.1") {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined).once("close", () => sockets.delete(socket));
  });
  server.listen(port, address);
  await once(server, "listening");
  const { port: boundPort } = server.address() as AddressInfo;
  const close = releaseLater(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, "close");
  });
  return { port: boundPort, host: `${address}:${boundPort}`, countConnections: () => sockets.size, close };
}
