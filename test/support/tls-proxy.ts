import { once } from "node:events";
import fs from "node:fs";
import { type AddressInfo, connect, type Socket } from "node:net";
import { createServer } from "node:tls";
import { getTlsFile } from "./nats-server.ts";

/** A server on loopback that accepts TLS connections with a client certificate, and forwards them to another server. */
export interface TlsProxy {
  port: number;
  close(): Promise<void>;
}

/** @param targetPort port of the server on loopback, which does not use TLS */
export async function startTlsProxy(targetPort: number): Promise<TlsProxy> {
  const sockets = new Set<Socket>();
  const trackSocket = (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined).on("close", () => sockets.delete(socket));
  };
  const proxy = createServer({
    cert: fs.readFileSync(getTlsFile("server.cert")),
    key: fs.readFileSync(getTlsFile("server.key")),
    ca: fs.readFileSync(getTlsFile("servers-ca.cert")),
    requestCert: true,
    rejectUnauthorized: true,
    ALPNProtocols: ["h2"],
  });
  proxy.on("secureConnection", (clientSocket) => {
    const serverSocket = connect(targetPort, "127.0.0.1");
    for (const socket of [clientSocket, serverSocket]) trackSocket(socket);
    clientSocket.pipe(serverSocket).pipe(clientSocket);
    clientSocket.on("close", () => serverSocket.destroy());
    serverSocket.on("close", () => clientSocket.destroy());
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  return {
    port: (proxy.address() as AddressInfo).port,
    async close() {
      for (const socket of sockets) socket.destroy();
      proxy.close();
      await once(proxy, "close");
    },
  };
}
